package pintensor

import (
	"runtime"
	"sync"
	"unsafe"
)

// freeList is the cached blocks of one size, the latest released on top, since its memory is likeliest
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

// recycle puts a block that has just become free into the cache, or gives it up if the engine is closed.
func (e *Engine) recycle(b *block, mem unsafe.Pointer) {
	if e.poison {
		b.scribble(mem)
	}
	if !e.push(b, mem) {
		e.note(e.discard(b, mem))
	}
}

// reclaimed is recycle for the finalizer, whose goroutine must not wait for a driver.
func (e *Engine) reclaimed(b *block, mem unsafe.Pointer) {
	if e.poison {
		b.scribble(mem)
	}
	if !e.push(b, mem) {
		go func() { e.note(e.discard(b, mem)) }()
	}
}

// push reports false if the engine is closed and takes no blocks back.
func (e *Engine) push(b *block, mem unsafe.Pointer) bool {
	l := &e.lists[b.class]
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.closed.Load() {
		return false
	}
	l.free = append(l.free, cached{b, mem})
	e.n.cached.add(b.size)
	return true
}

// discard gives a free block's memory up: it goes back to the heap. If the driver refuses to unregister
// it, the memory must never be used for anything else; it is kept for good.
func (e *Engine) discard(b *block, mem unsafe.Pointer) error {
	if b.locked {
		if err := e.host.Unregister(mem); err != nil {
			e.strandedMu.Lock()
			e.stranded = append(e.stranded, cached{b, mem})
			e.strandedMu.Unlock()
			return err
		}
		e.n.registered.sub(b.size)
	}
	blocks.remove(b.lo)
	runtime.SetFinalizer((*byte)(mem), nil)
	e.owned.Add(-b.size)
	e.n.trims.Add(1)
	runtime.KeepAlive(mem)
	return nil
}
