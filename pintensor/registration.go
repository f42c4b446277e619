package pintensor

// This file has what a registration keeps, how it ends when nobody can end it, and the pages that it counts.

import (
	"runtime"
	"sync"

	"gorgonia.org/tensor"
)

// registration is what a block of memory given to Register has and others don't.
type registration struct {
	backing  []byte // the memory, kept alive until it is unregistered
	watched  int    // objects that are left of those that show that the program may still unregister it
	cleanups [2]runtime.Cleanup
}

// drop lets go of the memory. The block's lock is held.
func (r *registration) drop() {
	r.backing = nil
	for _, c := range r.cleanups {
		c.Stop()
	}
}

// token is what an unregister function refers to, and nothing else does.
type token struct{ b *block }

// watch undoes the registration when neither of the two is referred to any more.
func (b *block) watch(t *tensor.Dense, owner *token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.registration.watched = 2
	b.registration.cleanups = [2]runtime.Cleanup{
		runtime.AddCleanup(t, (*block).unwatch, b),
		runtime.AddCleanup(owner, (*block).unwatch, b),
	}
	runtime.KeepAlive(t)
	runtime.KeepAlive(owner)
}

// unwatch is called by the runtime when one of the two is gone.
func (b *block) unwatch() {
	b.mu.Lock()
	b.registration.watched--
	abandoned := b.registration.watched == 0 && b.state == registered
	b.mu.Unlock()
	if abandoned {
		b.eng.afterwards(func() { b.eng.abandon(b) })
	}
}

// abandon undoes a registration that nobody can undo. If copies use the memory, the last to be done undoes
// it, as with a block that was released.
func (e *Engine) abandon(b *block) {
	e.n.forgotten.Add(1)
	if e.tracker != nil {
		e.tracker.ended(b, true)
	}
	b.mu.Lock()
	b.locked.Store(false)
	b.state = busy
	unused := b.settle()
	b.mu.Unlock()
	if unused {
		e.note(e.undo(b))
	}
	e.n.reclaimed.Add(1)
}

// undo unregisters abandoned memory. While the driver refuses, the memory is kept.
func (e *Engine) undo(b *block) error {
	err := e.unlockForeign(b)
	if err != nil {
		e.strand(cached{b, b.address()})
	}
	return err
}

// edgePages counts pages that tensors given to Register have bytes on. Tensors have no byte in common, so only
// the first and the last page of each can be another's too.
type edgePages struct {
	mu sync.Mutex
	n  map[uintptr]int // by the page's address
}

// enter adds the pages of n bytes at lo, and returns how many bytes of pages were not counted before.
func (p *edgePages) enter(lo uintptr, n int64) (bytes int64) {
	first, last := edgesOf(lo, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == nil {
		p.n = make(map[uintptr]int)
	}
	bytes = int64(last - first + pageSize)
	for _, page := range edges(first, last) {
		if p.n[page]++; p.n[page] > 1 {
			bytes -= int64(pageSize)
		}
	}
	return bytes
}

// leave takes them out, and returns how many bytes of pages are not counted any more.
func (p *edgePages) leave(lo uintptr, n int64) (bytes int64) {
	first, last := edgesOf(lo, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes = int64(last - first + pageSize)
	for _, page := range edges(first, last) {
		if p.n[page]--; p.n[page] > 0 {
			bytes -= int64(pageSize)
		} else {
			delete(p.n, page)
		}
	}
	return bytes
}

// edgesOf returns the addresses of the first and the last page of n bytes at lo.
func edgesOf(lo uintptr, n int64) (first, last uintptr) {
	return lo &^ (pageSize - 1), (lo + uintptr(n) - 1) &^ (pageSize - 1)
}

// edges returns them as a list without duplicates.
func edges(first, last uintptr) []uintptr {
	if first == last {
		return []uintptr{first}
	}
	return []uintptr{first, last}
}
