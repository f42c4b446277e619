package asynccopy

// This file has copies of memory that is not page-locked: the goroutines that copy between it and chunks, and the device
// that copies between those and its own.
//
// One goroutine moves 8 GB/s through the host's memory, eight move more than 40. What they must not do is call the driver
// at the same time: it has a lock, and a thread that sleeps for it takes longer to wake up than a chunk takes to copy. So
// one of them makes the calls for all, whoever comes first, and the others leave what they have and go on. Nobody parks
// where a moment's waiting will do.

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// chunked is one copy through chunks.
type chunked struct {
	stream *Stream
	event  *Event // of the copy as a whole
	src    source // of a copy to the device
	ptr    driver.DevicePtr
	dst    []byte // of a copy to the host
	step   int    // bytes of a chunk
	size   int
	issued func() error // called when the last copy to the host was issued

	next   atomic.Int64 // piece that nobody took
	failed atomic.Bool
	turn   chan struct{} // has room for one: whoever has put something in makes the driver calls
	copies int           // to the host that were issued; whose turn it is counts

	loans  []loan
	chunks []chunk // all, in the loans' memory

	mu       sync.Mutex
	free     []*chunk // in nobody's use; the last one's memory is nearest at hand
	full     []*chunk // for the device to read, or for the host
	underway []*chunk // what the device copies, in order
}

func newChunked(s *Stream, e *Event, size, elem int, ptr driver.DevicePtr) *chunked {
	step := (s.dev.staging.step(size) + elem - 1) / elem * elem
	return &chunked{stream: s, event: e, ptr: ptr, step: step, size: size, turn: make(chan struct{}, 1)}
}

func (c *chunked) count() int { return (c.size + c.step - 1) / c.step }

// run has goroutines do work and returns the first error when all have ended.
func (c *chunked) run(work func(*chunked) error) error {
	team := min(c.stream.dev.staging.team(), c.count())
	if err := c.prepare(min(rounds*team, c.count())); err != nil {
		return err
	}
	var workers crew
	return workers.run(team, func() error {
		err := work(c)
		if err != nil {
			c.failed.Store(true)
		}
		return err
	})
}

// prepare borrows chunks.
func (c *chunked) prepare(n int) error {
	d, step := c.stream.dev, min(c.step, c.size)
	c.loans = d.lendMany(n, step)
	c.chunks = make([]chunk, 0, n) // which never grows
	for _, l := range c.loans {
		for raw := l.raw; len(raw) >= step; raw = raw[step:] {
			h, err := d.takeEvent()
			if err != nil {
				return err
			}
			c.chunks = append(c.chunks, chunk{raw: raw[:step:step], done: h})
			c.free = append(c.free, &c.chunks[len(c.chunks)-1])
		}
	}
	return nil
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

// push adds a chunk to a list.
func (c *chunked) push(list *[]*chunk, k *chunk) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, k)
}

// popFirst takes the first chunk of a list; nil if there is none.
func (c *chunked) popFirst(list *[]*chunk) *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(*list) == 0 {
		return nil
	}
	k := (*list)[0]
	*list = (*list)[1:]
	return k
}

// spare returns a chunk that is in nobody's use, nil if there is none: the last that was put back, which is nearest at
// hand.
func (c *chunked) spare() *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.free)
	if n == 0 {
		return nil
	}
	k := c.free[n-1]
	c.free = c.free[:n-1]
	return k
}

// fill is the work of a goroutine of a copy to the device.
func (c *chunked) fill() error {
	for {
		off, n := c.take()
		if n == 0 {
			return c.flush()
		}
		k := c.spare()
		for k == nil {
			c.await()
			err := c.send()
			if err == nil {
				err = c.arrived(&c.free, true)
			}
			c.leave()
			if err != nil {
				return err
			}
			if k = c.spare(); k == nil {
				runtime.Gosched() // others are filling all that there are
			}
		}
		c.src.Gather(k.raw[:n], off)
		k.off, k.n = off, n
		c.push(&c.full, k)
		if err := c.flush(); err != nil {
			return err
		}
	}
}

// flush issues what is full, unless somebody else is issuing, who will see it.
func (c *chunked) flush() error {
	for {
		c.mu.Lock()
		none := len(c.full) == 0
		c.mu.Unlock()
		if none || !c.try() {
			return nil
		}
		err := c.send()
		if err == nil {
			err = c.arrived(&c.free, false)
		}
		c.leave()
		if err != nil {
			return err
		}
		// What has come between the last look and leaving was left to this goroutine.
	}
}

// send issues copies to the device of what is full. It is the caller's turn.
func (c *chunked) send() error {
	d := c.stream.dev
	for {
		k := c.popFirst(&c.full)
		if k == nil {
			return nil
		}
		err := d.drv.CopyHtoD(c.ptr+driver.DevicePtr(k.off), unsafe.Pointer(&k.raw[0]), int64(k.n), c.stream.handle, k.done)
		if err != nil {
			return d.fail(err)
		}
		c.push(&c.underway, k)
	}
}

// arrived moves chunks that the device has done with to a list. If there are none, and nobody has put one there, it
// waits for the first, if it may. It is the caller's turn.
func (c *chunked) arrived(to *[]*chunk, wait bool) error {
	d := c.stream.dev
	for {
		c.mu.Lock()
		wait = wait && len(*to) == 0
		var first *chunk
		if len(c.underway) > 0 {
			first = c.underway[0]
		}
		c.mu.Unlock()
		if first == nil {
			return nil
		}
		done, err := d.drv.Query(first.done)
		if err == nil && !done && wait {
			err = d.drv.SyncEvent(first.done)
			done = true
		}
		if err != nil || !done {
			return d.fail(err)
		}
		c.mu.Lock()
		c.underway = c.underway[1:]
		*to = append(*to, first)
		c.mu.Unlock()
	}
}

// drain is the work of a goroutine of a copy to the host: to copy what the device has brought.
func (c *chunked) drain() error {
	for {
		if k := c.popFirst(&c.full); k != nil {
			k.land(c.dst)
			c.push(&c.free, k)
			continue
		}
		if c.failed.Load() || !c.more() && c.idle() {
			return nil
		}
		c.await()
		err := c.fetch()
		if err == nil {
			err = c.arrived(&c.full, true)
		}
		c.leave()
		if err != nil {
			return err
		}
	}
}

// idle reports whether the device copies nothing.
func (c *chunked) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.underway) == 0
}

// fetch issues copies to the host as long as there are chunks. What arrives meanwhile is there for others to land. It is the
// caller's turn.
func (c *chunked) fetch() error {
	d := c.stream.dev
	for c.more() {
		k := c.spare()
		if k == nil {
			return nil
		}
		off, n := c.take()
		if n == 0 {
			c.push(&c.free, k)
			return nil
		}
		err := d.drv.CopyDtoH(unsafe.Pointer(&k.raw[0]), c.ptr+driver.DevicePtr(off), int64(n), c.stream.handle, k.done)
		if err != nil {
			return d.fail(err)
		}
		k.off, k.n = off, n
		c.push(&c.underway, k)
		if c.copies++; c.copies == c.count() {
			if err := c.issued(); err != nil {
				return err
			}
		}
		if err := c.arrived(&c.full, false); err != nil {
			return err
		}
	}
	return nil
}

// try takes the turn if nobody has it, await in any case; leave ends it.
func (c *chunked) try() bool {
	select {
	case c.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (c *chunked) await() {
	if !eventually(c.try) {
		c.turn <- struct{}{}
	}
}

func (c *chunked) leave() { <-c.turn }

// eventually asks until it is told yes, for some hundred microseconds at most: the time after which it makes no
// difference that a thread has to be woken.
func eventually(done func() bool) bool {
	for i := range 4000 {
		if done() {
			return true
		}
		if i%8 == 7 {
			runtime.Gosched()
		}
	}
	return false
}

// settle ends the copy with the error that its issuing ended with, and returns it.
func (c *chunked) settle(err error) error {
	d := c.stream.dev
	if err != nil {
		err = c.stream.abandon(c.event, err)
	}
	for _, l := range c.loans {
		d.giveBack(l, c.event)
	}
	for _, k := range c.chunks {
		d.events.put(k.done)
	}
	return err
}
