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
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/pintensor"
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
	raw  []byte
	lent pintensor.Buffer // whose memory raw is, none for ordinary memory
	hold pintensor.Hold

	done   driver.Event // of the last copy
	off, n int          // where its contents belong, if they are yet to land on the host
}

// lend returns a chunk of n bytes.
func (d *Device) lend(n int64) chunk {
	lent, err := d.engine().AllocBuffer(n)
	if err != nil {
		if !errors.Is(err, pintensor.ErrLimit) && !errors.Is(err, pintensor.ErrClosed) {
			d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err)) // not for this copy, but somebody must know
		}
		return chunk{raw: make([]byte, n)}
	}
	c := chunk{raw: lent.Bytes(), lent: lent}
	c.hold, _ = lent.Acquire() // it was lent just now, so it is not released
	return c
}

// giveBack returns the chunk to its engine when e is complete, nil for now. The engine's error is not the
// copy's: the device's next call returns it.
func (d *Device) giveBack(c chunk, e *Event) {
	if c.lent == (pintensor.Buffer{}) {
		if e != nil {
			e.hold(c.raw)
		}
		return
	}
	if e != nil {
		c.hold.Until((*flight)(e))
	} else {
		c.hold.Done()
	}
	if err := c.lent.Release(); err != nil {
		d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err))
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

	most   int          // chunks that are borrowed
	next   atomic.Int64 // piece that nobody took
	copies atomic.Int64 // issued, of a copy to the host
	failed atomic.Bool
	issued func() error // called when the last copy to the host was issued

	mu     sync.Mutex
	chunks []*chunk
	arrive []*chunk // hold what is yet to land on the host, or will when the device has copied it; oldest first
}

func newChunked(s *Stream, e *Event, size, elem int, ptr driver.DevicePtr) *chunked {
	step := (s.dev.staging.step(size) + elem - 1) / elem * elem
	return &chunked{stream: s, event: e, ptr: ptr, step: step, size: size}
}

func (c *chunked) count() int { return (c.size + c.step - 1) / c.step }

// run has goroutines do work and returns the first error when all have ended.
func (c *chunked) run(work func(*chunked) error) error {
	team := min(c.stream.dev.staging.team(), c.count())
	c.most = rounds * team
	var workers crew
	return workers.run(team, func() error {
		err := work(c)
		if err != nil {
			c.failed.Store(true)
		}
		return err
	})
}

// take returns the place of the next piece to copy; n is 0 when there is none.
func (c *chunked) take() (off, n int) {
	off = int(c.next.Add(1)-1) * c.step
	if off >= c.size || c.failed.Load() {
		return 0, 0
	}
	return off, min(c.step, c.size-off)
}

// more reports whether there may be a piece to take.
func (c *chunked) more() bool { return int(c.next.Load()) < c.count() && !c.failed.Load() }

// borrow returns a chunk that is in nobody's use, or nil if there are as many as there may be. A goroutine that has
// none gets one in any case.
func (c *chunked) borrow(none bool) (*chunk, error) {
	c.mu.Lock()
	full := len(c.chunks) >= c.most && !none
	if full {
		c.mu.Unlock()
		return nil, nil
	}
	k := new(chunk) // its place is taken
	c.chunks = append(c.chunks, k)
	c.mu.Unlock()
	h, err := c.stream.dev.takeEvent()
	if err != nil {
		return nil, err
	}
	*k = c.stream.dev.lend(int64(min(c.step, c.size)))
	k.done = h
	return k, nil
}

// fill is the work of a goroutine of a copy to the device.
func (c *chunked) fill() error {
	d := c.stream.dev
	var own []*chunk // oldest first
	for {
		off, n := c.take()
		if n == 0 {
			return nil
		}
		k, err := c.spare(&own)
		if err != nil {
			return err
		}
		c.src.Gather(k.raw[:n], off)
		err = d.drv.CopyHtoD(c.ptr+driver.DevicePtr(off), unsafe.Pointer(&k.raw[0]), int64(n), c.stream.handle, k.done)
		if err != nil {
			return d.fail(err)
		}
		own = append(own, k)
	}
}

// spare returns a chunk that the device does not read: one's own that it has read, which the core has at hand, else
// another one, and only if there are no more one's own that it is about to read.
func (c *chunked) spare(own *[]*chunk) (*chunk, error) {
	d, list := c.stream.dev, *own
	if len(list) == 0 {
		return c.borrow(true)
	}
	first := list[0]
	read, err := d.drv.Query(first.done)
	if err != nil {
		return nil, d.fail(err)
	}
	if !read {
		if k, err := c.borrow(false); k != nil || err != nil {
			return k, err
		}
		if err := d.fail(d.drv.SyncEvent(first.done)); err != nil {
			return nil, err
		}
	}
	*own = slices.Delete(list, 0, 1)
	return first, nil
}

// drain is the work of a goroutine of a copy to the host: it issues what it has chunks for, so that the device does not
// wait, then sees to what has come longest ago.
func (c *chunked) drain() error {
	d := c.stream.dev
	var free *chunk
	for {
		if free == nil && c.more() {
			var err error
			if free, err = c.borrow(false); err != nil {
				return err
			}
		}
		if free != nil {
			if off, n := c.take(); n > 0 {
				if err := c.fetch(free, off, n); err != nil {
					return err
				}
				free = nil
				continue
			}
		}
		k := c.oldest()
		if k == nil || c.failed.Load() {
			return nil
		}
		if err := d.fail(d.drv.SyncEvent(k.done)); err != nil {
			return err
		}
		k.land(c.dst)
		free = k
	}
}

// fetch issues the copy of a piece to a chunk.
func (c *chunked) fetch(k *chunk, off, n int) error {
	d := c.stream.dev
	err := d.drv.CopyDtoH(unsafe.Pointer(&k.raw[0]), c.ptr+driver.DevicePtr(off), int64(n), c.stream.handle, k.done)
	if err != nil {
		return d.fail(err)
	}
	k.off, k.n = off, n
	c.mu.Lock()
	c.arrive = append(c.arrive, k)
	c.mu.Unlock()
	if int(c.copies.Add(1)) == c.count() {
		return c.issued()
	}
	return nil
}

// oldest takes the chunk that was fetched longest ago, nil if there is none.
func (c *chunked) oldest() *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.arrive) == 0 {
		return nil
	}
	k := c.arrive[0]
	c.arrive = c.arrive[1:]
	return k
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
		if k.done == 0 {
			continue // it was not to be had
		}
		c.stream.dev.giveBack(*k, c.event)
		c.stream.dev.events.put(k.done)
	}
	return err
}
