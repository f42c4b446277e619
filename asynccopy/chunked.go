package asynccopy

// This file has the staging of memory that is not page-locked: chunks that are, and the goroutines that copy
// between the two.
//
// One goroutine moves 8 GB/s through the host's memory, eight more than 40. Each has a few chunks, so that it
// fills some while the device reads others. Chunks are lent by the process's pintensor.Engine for one
// copy, so nothing stays lent when no copy is under way, and copies share nothing that one of them could
// wait for: if the engine has no memory to lend, a chunk is ordinary memory, which is slower but right.

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/pintensor"
	"golang.org/x/sync/errgroup"
	"gorgonia.org/tensor"
)

const (
	smallest   = 256 << 10 // up to here one goroutine and one chunk are faster than several
	least      = 128 << 10 // of several chunks each: the host takes 20 µs for it, the driver 3
	rounds     = 4         // chunks of each goroutine: the device begins when one is full, and ends with one
	goroutines = 8         // of one copy at most; more gain nothing on the machines measured
)

// largest is what no chunk is larger than. Tests make it smaller, to go round with less.
var largest = 2 << 20

// staging is what WithStaging says, 0 for what copies choose.
type staging struct{ goroutines, chunk int }

// team returns how many goroutines a copy may have.
func (s staging) team() int {
	if s.goroutines > 0 {
		return s.goroutines
	}
	return min(runtime.GOMAXPROCS(0), goroutines)
}

// step returns the size of a chunk for a copy.
func (s staging) step(size int) int {
	if s.chunk > 0 {
		return s.chunk
	}
	return min(max((size-1)/(rounds*s.team())+1, least), largest)
}

// chunk is memory that a device copies from or to.
type chunk struct {
	raw    []byte
	lent   *tensor.Dense // whose memory raw is, nil for ordinary memory
	engine *pintensor.Engine
	hold   pintensor.Hold

	done   driver.Event // of the last copy
	off, n int          // where its contents belong, if they are yet to land on the host
}

// lend returns a chunk of n bytes.
func (d *Device) lend(n int64) *chunk {
	engine := d.engine()
	t, err := engine.Empty(tensor.Uint8, int(n))
	if err != nil {
		if !errors.Is(err, pintensor.ErrLimit) && !errors.Is(err, pintensor.ErrClosed) {
			d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err)) // not for this copy, but somebody must know
		}
		return &chunk{raw: make([]byte, n)}
	}
	c := &chunk{raw: t.Raw[:n], lent: t, engine: engine}
	c.hold, _ = pintensor.Acquire(t) // it was lent just now, so it is not released
	return c
}

// giveBack returns the chunk to its engine when e is complete, nil for now. The engine's error is not the
// copy's: the device's next call returns it.
func (d *Device) giveBack(c *chunk, e *Event) {
	switch {
	case c.lent == nil && e != nil:
		e.hold(c.raw)
	case c.lent != nil && e != nil:
		c.hold.Until((*flight)(e))
	case c.lent != nil:
		c.hold.Done()
	}
	if c.lent != nil {
		if err := c.engine.Release(c.lent); err != nil {
			d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err))
		}
	}
}

// hold keeps ordinary memory alive until e is complete.
func (e *Event) hold(mem []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done {
		e.keep = append(e.keep, mem)
	}
}

// chunked is one copy through chunks.
type chunked struct {
	stream *Stream
	event  *Event // of the copy as a whole
	src    source // of a copy to the device
	ptr    driver.DevicePtr
	dst    []byte // of a copy to the host
	step   int    // bytes of a chunk
	size   int

	team   int          // workers
	next   atomic.Int64 // chunk that nobody took
	copies atomic.Int64 // issued, of a copy to the host
	failed atomic.Bool
	issued func() error // called when the last copy to the host was issued

	mu     sync.Mutex
	chunks []*chunk
}

func newChunked(s *Stream, e *Event, size, elem int, ptr driver.DevicePtr) *chunked {
	step := (s.dev.staging.step(size) + elem - 1) / elem * elem
	return &chunked{stream: s, event: e, ptr: ptr, step: step, size: size}
}

func (c *chunked) count() int { return (c.size + c.step - 1) / c.step }

// run has goroutines do work, each with chunks of its own, and returns the first error when all have ended. The
// caller's is one of them.
func (c *chunked) run(work func(w *worker) error) error {
	c.team = min(c.stream.dev.staging.team(), c.count())
	c.next.Store(int64(rounds * c.team))
	one := func(i int) error {
		err := work(&worker{chunked: c, first: i})
		if err != nil {
			c.failed.Store(true)
		}
		return err
	}
	var g errgroup.Group
	for i := 1; i < c.team; i++ {
		g.Go(func() error { return one(i) })
	}
	first := one(0)
	if err := g.Wait(); first == nil {
		return err
	}
	return first
}

// worker is one of the goroutines.
type worker struct {
	*chunked
	first int // its first chunk
	turn  int // how many it has taken
	own   [rounds]*chunk
}

// take returns the place of the next chunk to copy; n is 0 when there is none. Each worker's first ones are
// its own, so that a copy of no more than those is issued without waiting for the device. It copies the rest
// as it comes to it.
func (w *worker) take() (off, n int) {
	i := w.first + w.turn*w.team
	if w.turn >= rounds {
		i = int(w.next.Add(1) - 1)
	}
	w.turn++
	off = i * w.step
	if off >= w.size || w.failed.Load() {
		return 0, 0
	}
	return off, min(w.step, w.size-off)
}

// ready returns the chunk for what was taken last, when the device has done with it.
func (w *worker) ready() (*chunk, error) {
	c, d := w.chunked, w.stream.dev
	slot := &w.own[w.turn%rounds]
	if *slot != nil {
		return *slot, d.fail(d.drv.SyncEvent((*slot).done))
	}
	h, err := d.takeEvent()
	if err != nil {
		return nil, err
	}
	k := d.lend(int64(min(c.step, c.size)))
	k.done = h
	*slot = k
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chunks = append(c.chunks, k)
	return k, nil
}

// fill is the work of a copy to the device.
func (w *worker) fill() error {
	d := w.stream.dev
	for {
		off, n := w.take()
		if n == 0 {
			return nil
		}
		k, err := w.ready()
		if err != nil {
			return err
		}
		w.src.Gather(k.raw[:n], off)
		err = d.drv.CopyHtoD(w.ptr+driver.DevicePtr(off), unsafe.Pointer(&k.raw[0]), int64(n), w.stream.handle, k.done)
		if err != nil {
			return d.fail(err)
		}
	}
}

// drain is the work of a copy to the host.
func (w *worker) drain() error {
	d := w.stream.dev
	for {
		off, n := w.take()
		if n == 0 {
			break
		}
		k, err := w.ready()
		if err != nil {
			return err
		}
		k.land(w.dst)
		err = d.drv.CopyDtoH(unsafe.Pointer(&k.raw[0]), w.ptr+driver.DevicePtr(off), int64(n), w.stream.handle, k.done)
		if err != nil {
			return d.fail(err)
		}
		k.off, k.n = off, n
		if int(w.copies.Add(1)) == w.count() {
			if err := w.issued(); err != nil {
				return err
			}
		}
	}
	for i := range w.own {
		k := w.own[(w.turn+i)%rounds] // the oldest first
		if k == nil {
			continue
		}
		if err := d.fail(d.drv.SyncEvent(k.done)); err != nil {
			return err
		}
		k.land(w.dst)
	}
	return nil
}

// land copies what the device has put into the chunk to its place.
func (k *chunk) land(dst []byte) {
	copy(dst[k.off:], k.raw[:k.n])
	k.n = 0
}

// settle ends the copy with the error that its issuing ended with, and returns it.
func (c *chunked) settle(err error) error {
	if err != nil {
		err = c.stream.abandon(c.event, err)
	}
	for _, k := range c.chunks {
		c.stream.dev.giveBack(k, c.event)
		c.stream.dev.events.put(k.done)
	}
	return err
}
