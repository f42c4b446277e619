package pintensor

// This file has the cache: free blocks by class, and how they are given up.

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"
)

// freeList is the cached blocks of one class, the latest released on top, since its memory is likeliest
// to be in the processor's cache.
type freeList struct {
	mu   sync.Mutex
	free []cached
	_    [32]byte // lists are neighbours in an array; none shares a cache line with another's lock
}

// cached is a free block and its memory. It is what keeps the memory alive.
type cached struct {
	b   *block
	mem unsafe.Pointer
}

// pop takes a block of the class from the cache.
func (e *Engine) pop(class int) (cached, bool) {
	l := &e.lists[class]
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.free) - 1
	if last < 0 {
		return cached{}, false
	}
	c := l.free[last]
	l.free[last] = cached{}
	l.free = l.free[:last]
	e.n.cached.sub(c.b.size)
	return c, true
}

// push reports false if the engine is closed and takes no blocks back.
func (e *Engine) push(c cached) bool {
	l := &e.lists[c.b.class]
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.closed.Load() { // Close sets it before it empties the lists, so none is put behind its back
		return false
	}
	l.free = append(l.free, c)
	e.n.cached.add(c.b.size)
	return true
}

// recycle puts a block that has just become free into the cache. It gives it up if the engine is closed.
func (e *Engine) recycle(b *block, mem unsafe.Pointer) error {
	if e.poison {
		b.scribble(mem)
	}
	c := cached{b, mem}
	if e.push(c) {
		return nil
	}
	return e.discard(c)
}

// recycleUnreachable is recycle for the finalizer, whose goroutine must not wait for a driver: all
// finalizers of the process would. It may where the race detector runs.
func (e *Engine) recycleUnreachable(b *block, mem unsafe.Pointer) {
	c := cached{b, mem}
	if raceEnabled {
		// The detector knows nothing of the order that the collector makes: it would take the next
		// owner's first write for a race with the last access of the owner that went away. Memory that
		// comes from the heap anew has no past.
		e.note(e.discard(c))
		return
	}
	if !e.push(c) {
		go func() { e.note(e.discard(c)) }()
	}
}

// discard gives a free block's memory back to the heap. While the driver refuses to unregister it, the
// memory must not be used for anything else: it is kept, and the next Trim or Close tries again.
func (e *Engine) discard(c cached) error {
	if c.b.locked.Load() {
		if err := e.host.Unregister(c.mem); err != nil {
			e.strandedMu.Lock()
			e.stranded = append(e.stranded, c)
			e.strandedMu.Unlock()
			return err
		}
		c.b.locked.Store(false)
		e.n.registered.sub(c.b.size)
	}
	blocks.remove(c.b.lo)
	runtime.SetFinalizer((*byte)(unsafe.Add(c.mem, -int(c.b.head))), nil)
	e.owned.Add(-c.b.size)
	e.n.trims.Add(1)
	return nil
}

// giveUp discards cached blocks, the largest first, until at least n bytes are freed or none is left.
func (e *Engine) giveUp(n int64) (freed int64, err error) {
	for class := len(e.lists) - 1; class >= 0 && freed < n; {
		c, ok := e.pop(class)
		if !ok {
			class--
			continue
		}
		if derr := e.discard(c); derr != nil {
			err = errors.Join(err, derr)
			continue
		}
		freed += c.b.size
	}
	return freed, err
}

// giveUpStranded tries again what discard could not do.
func (e *Engine) giveUpStranded() (freed int64, err error) {
	e.strandedMu.Lock()
	again := e.stranded
	e.stranded = nil
	e.strandedMu.Unlock()
	for _, c := range again {
		if derr := e.discard(c); derr != nil {
			err = errors.Join(err, derr)
			continue
		}
		freed += c.b.size
	}
	return freed, err
}
