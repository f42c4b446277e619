package pintensor

// This file has the cache: free blocks by class, and how they are given up.

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// # Cores
//
// Making a tensor of a few KiB from the cache takes less time than getting a lock that other cores are
// after. So blocks up to 256 KiB are cached by core, on shelves, and the totals of Stats are counted
// there: New and Release touch a shelf and, of what all cores share, only the gauges. A block goes back to
// the shelf of the core that took it, whoever releases it, for there it is wanted next. A core whose shelf
// has none takes one from another's before it makes a new one. Larger blocks take longer to clear than
// any lock.

// shelfClasses are the classes of block that have lists by core.
const shelfClasses = smallClasses + 2*classesPerDoubling + 1

// maxShelves bounds the memory for empty lists.
const maxShelves = 64

// shelf is a core's part of the cache, and of the engine's counters.
type shelf struct {
	lists [shelfClasses]freeList

	requested, lent, cached atomic.Int64 // totals, in bytes
	warm                    atomic.Int64
	_                       [64]byte
}

func newShelves() []shelf { return make([]shelf, min(runtime.GOMAXPROCS(0), maxShelves)) }

// place is a number that a core keeps for a while: a sync.Pool is kept by core, and so hands a core what it
// has put back itself. Several cores may have the same number.
type place struct{ n uint32 }

var (
	lastPlace atomic.Uint32
	places    = sync.Pool{New: func() any { return &place{lastPlace.Add(1)} }}
)

// shelf returns the caller's shelf. It may run on another core at any moment; that costs time, nothing else.
func (e *Engine) shelf() *shelf {
	at := places.Get().(*place)
	s := &e.shelves[at.n%uint32(len(e.shelves))]
	places.Put(at)
	return s
}

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

func (l *freeList) pop() (c cached, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.free) - 1
	if last < 0 {
		return cached{}, false
	}
	c = l.free[last]
	l.free[last] = cached{}
	l.free = l.free[:last]
	c.b.eng.n.cached.lower(c.b.size)
	return c, true
}

// list returns where blocks of the class are cached on the shelf.
func (e *Engine) list(s *shelf, class int) *freeList {
	if class < shelfClasses {
		return &s.lists[class]
	}
	return &e.large[class-shelfClasses]
}

// pop takes a block of the class from the cache, from the shelf near if there is one.
func (e *Engine) pop(near *shelf, class int) (c cached, ok bool) {
	if c, ok = e.list(near, class).pop(); ok || class >= shelfClasses {
		return c, ok
	}
	for i := range e.shelves {
		if other := &e.shelves[i]; other != near {
			if c, ok = other.lists[class].pop(); ok {
				return c, true
			}
		}
	}
	return cached{}, false
}

// push reports false if the block must be given up: the engine is closed, or the cache full.
func (e *Engine) push(c cached) bool {
	s := c.b.near
	l := e.list(s, c.b.class)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.closed.Load() { // Close sets it before it empties the lists, so none is put behind its back
		return false
	}
	if !e.mayCache(c.b.size) {
		return false
	}
	if e.aging.Load() {
		c.b.since = now() // with the lock held: the list is in the order of these
	}
	l.free = append(l.free, c)
	s.cached.Add(c.b.size)
	return true
}

// recycle puts a block that has just become free into the cache. It gives it up if that takes none.
func (e *Engine) recycle(b *block, mem unsafe.Pointer) error {
	if b.foreign {
		return e.undo(b)
	}
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
	if c.b.foreign {
		return e.undo(c.b)
	}
	e.freeing.Add(1)
	defer e.freeing.Add(-1)
	if c.b.locked.Load() {
		if err := e.host.Unregister(c.mem); err != nil {
			e.strand(c)
			return err
		}
		c.b.locked.Store(false)
		e.n.registered.lower(c.b.size)
	} else {
		e.n.pageable.lower(c.b.size)
	}
	blocks.remove(c.b.lo)
	runtime.SetFinalizer((*byte)(unsafe.Add(c.mem, -int(c.b.head))), nil)
	e.owned.Add(-c.b.size)
	e.n.trims.Add(1)
	return nil
}

// strand keeps what the driver did not unregister.
func (e *Engine) strand(c cached) {
	e.strandedMu.Lock()
	e.stranded = append(e.stranded, c)
	e.strandedMu.Unlock()
}

// giveUp discards cached blocks, the largest first, until at least n bytes are freed or none is left.
func (e *Engine) giveUp(n int64) (freed int64, err error) {
	near := e.shelf()
	for class := numClasses - 1; class >= 0 && freed < n; {
		c, ok := e.pop(near, class)
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
