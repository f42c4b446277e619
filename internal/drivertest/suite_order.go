package drivertest

// This file has the conformance tests of streams and events.

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

func testFIFO(r *rig) {
	const n, rounds = 256 << 10, 100
	p := r.memory(n)
	results := r.pinned(rounds * 64)
	s := r.stream()
	for i := range rounds {
		r.ok(r.dev.Memset(p, byte(i), n, s, 0))
		r.download(results[i*64:][:64], p+n-64, s, 0)
	}
	r.ok(r.dev.SyncStream(s))
	for i := range rounds {
		r.equal(fmt.Sprintf("round %d", i), results[i*64:][:64], bytes.Repeat([]byte{byte(i)}, 64))
	}
}

func testEvents(r *rig) {
	const n = 4 << 20
	p, b := r.memory(n), r.pinned(n)
	s, e := r.stream(), r.event()
	never := r.event()
	if done, err := r.dev.Query(never); err != nil || !done {
		r.Errorf("an event never recorded: Query: %v, %v; want true", done, err)
	}
	r.ok(r.dev.SyncEvent(never))
	r.ok(r.dev.WaitEvent(s, never))

	r.ok(r.dev.Record(e, s)) // an idle stream's
	r.ok(r.dev.SyncEvent(e))
	for i := range 10 {
		r.ok(r.dev.Memset(p, byte(i), n, s, 0))
		r.download(b, p, s, 0)
		r.ok(r.dev.Record(e, s)) // again: it now stands for this round's work
		if i%2 == 0 {
			r.ok(r.dev.SyncEvent(e))
		} else {
			r.poll(e)
		}
		if done, err := r.dev.Query(e); err != nil || !done {
			r.Fatalf("Query after completion: %v, %v; want true", done, err)
		}
		r.equal("copied before the event", b, bytes.Repeat([]byte{byte(i)}, n))
	}
}

// poll asks until the event has completed.
func (r *rig) poll(e driver.Event) {
	r.Helper()
	for start := time.Now(); ; runtime.Gosched() {
		done, err := r.dev.Query(e)
		r.ok(err)
		if done {
			return
		}
		if time.Since(start) > 10*time.Second {
			r.Fatal("the event does not complete")
		}
	}
}

func testWaitCaptures(r *rig) {
	const n = 1 << 20
	p, src, dst := r.memory(n), r.pinned(n), r.pinned(n)
	a, b, e := r.stream(), r.stream(), r.event()
	for round := range 10 {
		pattern(src, round)
		r.upload(p, src, a, e)
		r.ok(r.dev.WaitEvent(b, e))
		r.ok(r.dev.Record(e, b)) // were the wait to mean this, it would wait for itself
		r.download(dst, p, b, e)
		r.ok(r.dev.WaitEvent(a, e))
		r.ok(r.dev.SyncStream(b))
		r.equal("what the other stream wrote", dst, src)
	}
}

// testChains hands a buffer from stream to stream. Without the waits it would arrive with holes.
func testChains(r *rig) {
	const n, length, rounds = 256 << 10, 8, 10
	src, dst := r.pinned(n), r.pinned(n)
	var buffers [length]driver.DevicePtr
	var streams [length]driver.Stream
	var events [length]driver.Event
	for i := range length {
		buffers[i] = r.memory(n)
	}
	for i := range length {
		streams[i], events[i] = r.stream(), r.event()
	}
	for round := range rounds {
		pattern(src, round)
		r.upload(buffers[0], src, streams[0], events[0])
		for i := 1; i < length; i++ {
			r.ok(r.dev.WaitEvent(streams[i], events[i-1]))
			r.ok(r.dev.CopyDtoD(buffers[i], buffers[i-1], n, streams[i], events[i]))
		}
		r.ok(r.dev.WaitEvent(streams[0], events[length-1])) // the next round comes behind this one
		r.download(dst, buffers[length-1], streams[0], events[0])
		r.ok(r.dev.SyncEvent(events[0]))
		r.equal("end of the chain", dst, src)
	}
}

func testDestroyBusyStream(r *rig) {
	const n = 8 << 20
	p, src, dst := r.memory(n), r.pinned(n), r.pinned(n)
	e := r.event()
	for round := range 3 {
		s, err := r.dev.NewStream(round - 1) // priorities: urgent, normal, less than normal
		r.ok(err)
		pattern(src, round)
		r.upload(p, src, s, 0)
		r.download(dst, p, s, e)
		r.ok(r.dev.DestroyStream(s))
		r.ok(r.dev.SyncEvent(e))
		r.equal("copied by a destroyed stream", dst, src)
	}
}

// testGoroutines has more goroutines than threads, so that they move from one to another between calls.
func testGoroutines(r *rig) {
	const goroutines, rounds, n = 64, 25, 4 << 10
	p := r.memory(goroutines * n)
	src, dst := r.pinned(goroutines*n), r.pinned(goroutines*n)
	failed := make(chan error, goroutines)
	for g := range goroutines {
		at := p + driver.DevicePtr(g*n)
		src, dst := src[g*n:][:n], dst[g*n:][:n]
		go func() { failed <- copyRepeatedly(r.dev, at, src, dst, g, rounds) }()
	}
	for range goroutines {
		if err := <-failed; err != nil {
			r.Error(err)
		}
	}
}

func copyRepeatedly(d driver.Device, at driver.DevicePtr, src, dst []byte, g, rounds int) (err error) {
	s, err := d.NewStream(0)
	if err != nil {
		return err
	}
	e, err := d.NewEvent()
	if err != nil {
		return err
	}
	for round := range rounds {
		pattern(src, g*rounds+round)
		if err := d.CopyHtoD(at, address(src), int64(len(src)), s, 0); err != nil {
			return err
		}
		runtime.Gosched()
		if err := d.CopyDtoH(address(dst), at, int64(len(dst)), s, e); err != nil {
			return err
		}
		time.Sleep(time.Microsecond)
		if err := d.SyncEvent(e); err != nil {
			return err
		}
		if !bytes.Equal(dst, src) {
			return fmt.Errorf("goroutine %d, round %d: wrong data", g, round)
		}
	}
	if err := d.DestroyEvent(e); err != nil {
		return err
	}
	return d.DestroyStream(s)
}

func testSharedStream(r *rig) {
	const goroutines, rounds, n = 16, 20, 16 << 10
	p := r.memory(goroutines * n)
	src, dst := r.pinned(goroutines*n), r.pinned(goroutines*n)
	s := r.stream()
	pattern(src, 1)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			part := driver.DevicePtr(g * n)
			for range rounds {
				if err := r.dev.CopyHtoD(p+part, address(src[part:]), n, s, 0); err != nil {
					r.Error(err)
				}
				if err := r.dev.CopyDtoH(address(dst[part:]), p+part, n, s, 0); err != nil {
					r.Error(err)
				}
			}
		})
	}
	all.Wait()
	r.ok(r.dev.SyncStream(s))
	r.equal("all parts", dst, src)
}
