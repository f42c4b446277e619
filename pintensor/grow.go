package pintensor

// This file has what makes an engine larger, within its limit.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

const (
	// maxWait bounds how long one call waits for copies in flight, and for other calls, before it gives up.
	maxWait = 10 * time.Second

	// freeingPoll is how often a call looks whether the others are done: the driver takes about as long.
	freeingPoll = 100 * time.Microsecond
)

// take returns a block of at least n bytes that belongs to nobody. In poison mode it fails if somebody has
// written to it since it came back.
func (e *Engine) take(near *shelf, n int64) (cached, error) {
	c, err := e.find(near, n)
	if err != nil {
		return cached{}, err
	}
	if at := c.b.written(c.mem); at >= 0 {
		err := fmt.Errorf("byte %d of a released tensor of %d bytes was %w", at, c.b.poisoned, ErrWritten)
		return cached{}, errors.Join(err, e.recycle(c.b, c.mem))
	}
	return c, nil
}

func (e *Engine) find(near *shelf, n int64) (cached, error) {
	class, size := classOf(n)
	if c, ok := e.pop(near, class); ok {
		near.warm.Add(1)
		return c, nil
	}
	e.poll(pollAll)
	if c, ok := e.pop(near, class); ok {
		near.warm.Add(1)
		return c, nil
	}
	return e.grow(near, class, size)
}

// grow makes a new block. When the limit is reached, or the driver has no memory, it gives cached
// blocks of other sizes up, then lets the collector find tensors that were dropped, then waits for
// other calls that are giving memory up, and for copies in flight, for at most maxWait together, and tries
// again after each.
func (e *Engine) grow(near *shelf, class int, size int64) (cached, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.maxWait)
	defer cancel()
	for collections, waited := 0, false; ; {
		freeing := e.freeing.Load() > 0 // before cold: if it is refused they may have ended since
		c, err := e.cold(near, class, size)
		if err == nil || !errors.Is(err, ErrLimit) && !errors.Is(err, driver.ErrOutOfMemory) {
			return c, err
		}
		switch {
		case e.makeRoom(size, err):
		case collections == 0:
			collections++
			e.collect()
		case freeing && ctx.Err() == nil:
			time.Sleep(freeingPoll)
		case e.waitOldest(ctx):
			waited = true
		case waited && collections == 1:
			collections++ // tensors may have been dropped that only their copies kept alive
			e.collect()
		default:
			return cached{}, err
		}
		if c, ok := e.pop(near, class); ok {
			near.warm.Add(1)
			return c, nil
		}
	}
}

// cold makes, page-locks and enters a new block, within the limit.
func (e *Engine) cold(near *shelf, class int, size int64) (cached, error) {
	if !e.reserve(size) {
		return cached{}, e.limitError(size)
	}
	mem, head := newMemory(size, pageSize)
	locked, err := e.lock(mem, size)
	if err != nil {
		e.owned.Add(-size)
		return cached{}, fmt.Errorf("page-locking %d bytes: %w", size, err)
	}
	b := &block{eng: e, lo: uintptr(mem), head: head, size: size, class: class, near: near}
	b.locked.Store(locked)
	if other := blocks.add(b.lo, b.lo+uintptr(size), b); other != nil {
		// Going on would give one piece of memory to two owners.
		panic("pintensor: the heap gave out memory of a block that is still in use")
	}
	setReclaim(mem, head)
	e.n.cold.Add(1)
	if locked {
		e.n.registered.add(size)
	} else {
		e.n.unlocked.Add(1)
		e.n.pageable.add(size)
	}
	return cached{b, mem}, nil
}

func (e *Engine) limitError(asked int64) error {
	return &LimitError{Limit: e.limit, Asked: asked, Lent: e.n.lent.current.Load(),
		Cached: e.n.cached.current.Load(), InFlight: e.n.inFlight.current.Load()}
}

// reserve counts size against the limit.
func (e *Engine) reserve(size int64) bool {
	for {
		owned := e.owned.Load()
		if e.limit > 0 && size > e.limit-owned {
			return false
		}
		if e.owned.CompareAndSwap(owned, owned+size) {
			return true
		}
	}
}

// makeRoom gives cached blocks up for a block of size bytes that was refused, and reports whether that
// can have helped.
func (e *Engine) makeRoom(size int64, refusal error) bool {
	have := e.n.cached.current.Load()
	want := have // a driver that refuses doesn't say how much would help
	if errors.Is(refusal, ErrLimit) {
		want = e.owned.Load() + size - e.limit
	}
	if have == 0 || want > have {
		return false
	}
	freed, err := e.giveUp(want)
	e.note(err)
	return freed > 0
}

// collect runs the garbage collector and lets finalizers put back the blocks that it found. It runs it
// twice, since a block lent by Alloc must be found twice, and since finalizers of the first round are
// certain to have run only when those of the second do.
func (e *Engine) collect() {
	before := e.n.reclaimed.Load()
	for range 2 {
		swept := make(chan struct{})
		runtime.SetFinalizer(new(*int), func(**int) { close(swept) })
		runtime.GC()
		select {
		case <-swept:
		case <-time.After(young):
		}
		if e.n.reclaimed.Load() != before {
			return
		}
		if e.n.allocated.Load() > 0 {
			time.Sleep(young)
		}
	}
}
