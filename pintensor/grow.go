package pintensor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// maxWait bounds how long a call waits for copies in flight before it gives up.
const maxWait = 10 * time.Second

// take returns a block of at least n bytes that belongs to nobody.
func (e *Engine) take(n int64) (cached, error) {
	class, size := classOf(n)
	if c, ok := e.pop(class); ok {
		e.n.warm.Add(1)
		return c, nil
	}
	e.poll(pollAll)
	if c, ok := e.pop(class); ok {
		e.n.warm.Add(1)
		return c, nil
	}
	return e.grow(class, size)
}

// grow makes a new block. When the limit is reached or the driver refuses, it gives up cached blocks
// of other sizes, then lets the collector find tensors that were dropped, then waits for copies, for
// at most maxWait together, and tries again after each.
func (e *Engine) grow(class int, size int64) (cached, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.maxWait)
	defer cancel()
	for collected := false; ; {
		c, err := e.cold(class, size)
		if err == nil || !errors.Is(err, ErrLimit) && !errors.Is(err, driver.ErrOutOfMemory) {
			return c, err
		}
		switch {
		case e.makeRoom(size, err):
		case !collected:
			collected = true
			e.collect()
		case e.waitOldest(ctx):
			e.poll(pollAll)
			collected = false // what had copies in flight may be unreachable now
		default:
			return cached{}, err
		}
		if c, ok := e.pop(class); ok {
			e.n.warm.Add(1)
			return c, nil
		}
	}
}

// cold makes, registers and enters a new block, within the limit.
func (e *Engine) cold(class int, size int64) (cached, error) {
	if !e.reserve(size) {
		return cached{}, &LimitError{Limit: e.limit, Asked: size, Lent: e.n.lent.current.Load(),
			Cached: e.n.cached.current.Load(), InFlight: e.n.inFlight.current.Load()}
	}
	mem := newMemory(size)
	b := &block{eng: e, lo: uintptr(mem), size: size, class: class}
	locked, err := e.lock(mem, size)
	if err != nil {
		e.owned.Add(-size)
		return cached{}, fmt.Errorf("pintensor: page-locking %d bytes: %w", size, err)
	}
	b.locked = locked
	if other := blocks.add(b.lo, b.lo+uintptr(size), b); other != nil {
		panic("pintensor: new heap memory lies in a block that is in use") // the collector freed what we refer to
	}
	runtime.SetFinalizer((*byte)(mem), reclaim)
	e.n.cold.Add(1)
	if locked {
		e.n.registered.add(size)
	} else {
		e.n.unlocked.Add(1)
	}
	return cached{b, mem}, nil
}

// reserve counts size against the limit.
func (e *Engine) reserve(size int64) bool {
	for {
		owned := e.owned.Load()
		if e.limit > 0 && owned+size > e.limit {
			return false
		}
		if e.owned.CompareAndSwap(owned, owned+size) {
			return true
		}
	}
}

// makeRoom gives cached blocks up for a block of size bytes that err refused, and reports whether that
// can have helped.
func (e *Engine) makeRoom(size int64, err error) bool {
	have := e.n.cached.current.Load()
	want := have // a driver that refuses doesn't say how much would help
	if errors.Is(err, ErrLimit) {
		want = e.owned.Load() + size - e.limit
	}
	if have == 0 || want > have {
		return false
	}
	freed, err := e.giveUp(want)
	e.note(err)
	return freed > 0
}

// giveUp discards cached blocks, the largest first, until at least n bytes are freed or none is left.
func (e *Engine) giveUp(n int64) (freed int64, err error) {
	for class := len(e.lists) - 1; class >= 0 && freed < n; {
		c, ok := e.pop(class)
		if !ok {
			class--
			continue
		}
		if derr := e.discard(c.b, c.mem); derr != nil {
			err = errors.Join(err, derr)
			continue
		}
		freed += c.b.size
	}
	return freed, err
}

// collect runs a garbage collection and gives finalizers time to put back blocks that it found.
func (e *Engine) collect() {
	before := e.n.reclaimed.Load()
	for range 2 { // a block lent by Alloc must be found twice
		swept := make(chan struct{})
		sentinel := new(*int)
		runtime.SetFinalizer(sentinel, func(**int) { close(swept) })
		runtime.GC()
		select {
		case <-swept:
		case <-time.After(100 * time.Millisecond):
		}
		if e.n.reclaimed.Load() != before {
			return
		}
	}
}

// newMemory returns zeroed memory of the Go heap, a span of its own.
func newMemory(size int64) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(make([]byte, size)))
}
