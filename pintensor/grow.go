package pintensor

// This file has what makes an engine larger, within its limit.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

const (
	// maxWait bounds how long one call waits for copies in flight, and for other calls, before it gives up.
	maxWait = 10 * time.Second

	// freeingPoll is how often a call looks whether the others are done: the driver takes about as long.
	freeingPoll = 100 * time.Microsecond
)

// take returns a block of at least n bytes, for want bytes, that belongs to nobody. In poison mode it fails if
// somebody has written to it since it came back.
func (e *Engine) take(near *shelf, n, want int64) (cached, error) {
	c, err := e.find(near, n, want)
	if err != nil {
		return cached{}, err
	}
	if at := c.b.written(c.mem); at >= 0 {
		e.n.cached.lower(c.b.near, c.b.size)
		e.n.coldLent.Add(-c.b.size) // its list counted it as lent
		e.n.coldRequested.Add(-want)
		return cached{}, errors.Join(e.writtenError(c.b, at), e.recycle(c.b, c.mem))
	}
	return c, nil
}

func (e *Engine) find(near *shelf, n, want int64) (cached, error) {
	class, size := classOf(max(n, e.smallest))
	if c, ok := e.pop(near, class, want); ok {
		return c, nil
	}
	e.poll(pollAll)
	if c, ok := e.pop(near, class, want); ok {
		return c, nil
	}
	return e.grow(near, class, size, want)
}

// grow makes a new block. When the limit is reached, or the driver has no memory, it gives cached
// blocks of other sizes up, then lets the collector find tensors that were dropped, then waits for
// other calls that are giving memory up, and for copies in flight, for at most maxWait together, and tries
// again after each.
func (e *Engine) grow(near *shelf, class int, size, want int64) (cached, error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.maxWait)
	defer cancel()
	for collections, waited := 0, false; ; {
		freeing := e.freeing.Load() > 0 // before cold: if it is refused they may have ended since
		c, err := e.cold(near, class, size, want)
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
		if c, ok := e.pop(near, class, want); ok {
			return c, nil
		}
	}
}

// cold makes a new segment, and returns a block of it for want bytes. The others it puts into the cache.
func (e *Engine) cold(near *shelf, class int, size, want int64) (cached, error) {
	n := e.blocksFor(class, size)
	s, mem, err := e.newSegment(near, class, size, n)
	if n > 1 && (errors.Is(err, ErrLimit) || errors.Is(err, driver.ErrOutOfMemory)) {
		s, mem, err = e.newSegment(near, class, size, 1)
	}
	if err != nil {
		return cached{}, err
	}
	e.n.coldLent.Add(size)
	e.n.coldRequested.Add(want)
	if s.carved != nil {
		e.shelve(near, s, s.carved.blocks[1:], nil)
	}
	return cached{s.first, mem}, nil
}

// newSegment makes, page-locks and enters a segment of n blocks, within the limit. They are free, and the caller's.
func (e *Engine) newSegment(near *shelf, class int, size int64, n int) (*segment, unsafe.Pointer, error) {
	e.retryStranded()
	bytes := int64(n) * size
	if !e.reserve(bytes) {
		return nil, nil, e.limitError(bytes)
	}
	made, err := e.makeMemory(bytes)
	if err != nil {
		e.owned.Add(-bytes)
		return nil, nil, err
	}
	s, mem, locked := e.cut(class, size, n, made.mem, made.head, near), made.mem, made.locked
	s.locked.Store(locked)
	if !made.zeros {
		s.first.marks |= dirty // it is large, so all of the segment
	}
	if other := blocks.add(s.base, s.base+uintptr(bytes), s); other != nil {
		// Going on would give one piece of memory to two owners.
		panic("pintensor: the heap gave out memory of a block that is still in use")
	}
	s.arm(mem)
	e.n.cold.Add(1)
	if locked {
		e.n.registered.add(bytes)
	} else {
		e.n.unlocked.Add(1)
		e.n.pageable.add(bytes)
	}
	if s.carved != nil {
		e.carvedBytes[class].Add(bytes)
		e.carvedSegments.Add(1)
		e.watchGC()
	}
	return s, mem, nil
}

// made is memory for a segment.
type made struct {
	mem    unsafe.Pointer
	head   uintptr // see newMemory
	zeros  bool
	locked bool
}

// makeMemory returns memory that is page-locked, if the system lets it be, on the engine's node.
func (e *Engine) makeMemory(bytes int64) (m made, err error) {
	e.chooseHost() // and so the node
	m.mem, m.head, m.zeros = newMemory(bytes, pageSize)
	pages := (uintptr(bytes) + pageSize - 1) / pageSize * pageSize
	if err := e.bindNew(m.mem, pages); err != nil {
		return made{}, err
	}
	if bytes >= largeBlock {
		s := unsafe.Slice((*byte)(m.mem), bytes)
		adviseHuge(s)
		touch(e.parallelism, s)
	}
	m.locked, err = e.lock(m.mem, bytes)
	e.unbind(m.mem, pages)
	if err != nil {
		return made{}, fmt.Errorf("page-locking %d bytes: %w", bytes, err)
	}
	return m, nil
}

func (e *Engine) limitError(asked int64) error {
	return &LimitError{Limit: e.limit, Asked: asked, Lent: e.n.lent.now(),
		Cached: e.n.cached.now(), InFlight: e.n.inFlight.current.Load()}
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
	if e.retryStranded() > 0 {
		return true
	}
	have := e.spare()
	want := have // a driver that refuses doesn't say how much would help
	if errors.Is(refusal, ErrLimit) {
		want = e.owned.Load() + size - e.limit
	}
	if have <= 0 || want > have {
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
		e.weighAll()
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
