package pintensor

// This file has the cache: free blocks by class, and how they are given up.

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"
)

// # Cores
//
// Making a tensor of a few KiB from the cache takes less time than getting a lock that other cores are
// after. So blocks up to 256 KiB are cached by core, on shelves, and the totals of Stats are counted
// there: New and Release touch nothing that another core writes to. A block goes back to
// the shelf of the core that took it, whoever releases it, for there it is wanted next. A core whose shelf
// has none takes one from another's before it makes a new one. Larger blocks take longer to clear than
// any lock.

// shelfClasses are the classes of block that have lists by core.
const shelfClasses = classesPerDoubling + (18-firstShift)*classesPerDoubling

// maxShelves bounds the memory for empty lists. A block knows its shelf by an 8-bit number.
const maxShelves = 64

// shelf is a core's part of the cache, and of what is counted: the room below the peak of each level, see level.go.
type shelf struct {
	lists                   [shelfClasses]freeList
	requested, lent, cached atomic.Int64
	index                   uint8
	_                       [128 - 3*8 - 1]byte // of two cache lines, as processors fetch the neighbour of one that they need
}

// divide gives the engine n shelves, before anything is on them.
func (e *Engine) divide(n int) {
	e.shelves = make([]shelf, min(n, maxShelves))
	e.n.requested, e.n.lent, e.n.cached = level{}, level{}, level{}
	for i := range e.shelves {
		s := &e.shelves[i]
		s.index = uint8(i)
		e.n.requested.rooms = append(e.n.requested.rooms, &s.requested)
		e.n.lent.rooms = append(e.n.lent.rooms, &s.lent)
		e.n.cached.rooms = append(e.n.cached.rooms, &s.cached)
	}
}

// shelf returns the caller's shelf. It may run on another core at any moment; that costs time, nothing else.
func (e *Engine) shelf() *shelf {
	at := places.Get().(*place) // see place.go
	s := &e.shelves[at.n%uint32(len(e.shelves))]
	places.Put(at)
	return s
}

// freeList is the cached blocks of one class, the latest released on top, since its memory is likeliest
// to be in the processor's cache; and what Stats has of them in total. It is the size of a cache line, so that those
// that are neighbours in an array don't have another's lock on theirs.
type freeList struct {
	mu   sync.Mutex
	free []cached

	warm            int64 // blocks that were lent from it
	lent, requested int64 // their bytes, and what they were asked for
	cached          int64 // bytes that were put into it
}

// cached is a free block and its memory. It is what keeps the memory alive, but for free blocks in a segment of
// which others are in use: the cache has those without the pointer.
type cached struct {
	b   *block
	mem unsafe.Pointer
}

// pop takes the block out that came back last, for a tensor of want bytes. It counts as cached until it is lent.
func (l *freeList) pop(want int64) (c cached, ok bool) {
	l.mu.Lock()
	for i := len(l.free) - 1; i >= 0; i-- {
		c = l.free[i]
		if c.mem = c.pointer(); c.mem == nil {
			continue
		}
		copy(l.free[i:], l.free[i+1:])
		l.free[len(l.free)-1] = cached{}
		l.free = l.free[:len(l.free)-1]
		l.warm++
		l.lent += c.b.size
		l.requested += want
		l.mu.Unlock()
		return c, true
	}
	l.mu.Unlock()
	return cached{}, false
}

// addTo adds the list's totals.
func (l *freeList) addTo(s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Warm += l.warm
	s.Lent.Total += l.lent
	s.Requested.Total += l.requested
	s.Cached.Total += l.cached
}

// list returns where blocks of the class are cached on the shelf.
func (e *Engine) list(s *shelf, class int) *freeList {
	if class < shelfClasses {
		return &s.lists[class]
	}
	return &e.large[class-shelfClasses]
}

// listsOf returns all lists of the class.
func (e *Engine) listsOf(class int) []*freeList {
	if class >= shelfClasses {
		return []*freeList{&e.large[class-shelfClasses]}
	}
	lists := make([]*freeList, len(e.shelves))
	for i := range e.shelves {
		lists[i] = &e.shelves[i].lists[class]
	}
	return lists
}

// pop takes a block of the class from the cache, from the shelf near if there is one, for a tensor of want bytes.
func (e *Engine) pop(near *shelf, class int, want int64) (c cached, ok bool) {
	if c, ok = e.list(near, class).pop(want); ok || class >= shelfClasses {
		return c, ok
	}
	for i := 1; i < len(e.shelves); i++ { // not all cores from the same one on
		if c, ok = e.shelves[(int(near.index)+i)%len(e.shelves)].lists[class].pop(want); ok {
			return c, true
		}
	}
	return cached{}, false
}

// push puts a free block into the cache. It reports false if it must be given up, as the engine is closed or the
// cache full: then only blocks that are part of a larger segment are put there all the same, for giveUpBlock.
func (e *Engine) push(c cached) bool {
	l := e.list(&e.shelves[c.b.near], int(c.b.class))
	l.mu.Lock()
	defer l.mu.Unlock()
	// Close sets closed before it empties the lists, so none is put behind its back.
	kept := !e.closed.Load() && e.mayCache(c.b.near, c.b.size)
	if !kept {
		if c.b.carved == nil {
			return false
		}
		e.n.cached.raise(c.b.near, c.b.size)
	}
	if e.aging.Load() {
		c.b.at = now() // with the lock held: the list is in the order of these
	}
	c.b.marks |= countedCached
	l.free = append(l.free, c)
	l.cached += c.b.size
	return kept
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
	return e.giveUpBlock(c)
}

// giveUpBlock gives up a block that push did not keep. One that is part of a larger segment is given up with the
// last of the others.
func (e *Engine) giveUpBlock(c cached) (err error) {
	if c.b.carved == nil {
		return e.discard(c)
	}
	for _, whole := range e.takeWhole(int(c.b.class), 1, always, func(s *segment) bool { return s == c.b.segment }) {
		err = errors.Join(err, e.discard(whole))
	}
	return err
}

// discard gives the memory of a segment back to the heap, all of whose blocks are the caller's; c is its first.
// While the driver refuses to unregister it, the memory must not be used for anything else: it is kept, and tried
// again, see stranded.go.
func (e *Engine) discard(c cached) error {
	if c.b.foreign {
		return e.undo(c.b)
	}
	if e.poison {
		e.inspect(c)
	}
	e.freeing.Add(1)
	defer e.freeing.Add(-1)
	s, n := c.b.segment, c.b.bytes()
	if s.locked.Load() {
		if err := e.host.Unregister(c.mem); err != nil {
			e.strand(c)
			return err
		}
		s.locked.Store(false)
		e.n.registered.lower(n)
	} else {
		e.n.pageable.lower(n)
	}
	blocks.remove(s.base)
	if e.tracker != nil {
		e.tracker.forget(s)
	}
	s.disarm(c.mem)
	if s.carved != nil {
		e.carvedBytes[s.class].Add(-n)
		e.carvedSegments.Add(-1)
	}
	e.owned.Add(-n)
	e.n.trims.Add(1)
	return nil
}

// strand keeps what the driver did not unregister.
func (e *Engine) strand(c cached) {
	e.strandedMu.Lock()
	e.stranded = append(e.stranded, c)
	e.strandedMu.Unlock()
}

// giveUp discards cached segments, the largest first, until at least n bytes are freed or none is left that is
// in the cache whole.
func (e *Engine) giveUp(n int64) (freed int64, err error) {
	for class := numClasses - 1; class >= 0 && freed < n; {
		found := e.takeForGood(class, n-freed)
		if len(found) == 0 {
			class--
			continue
		}
		for _, c := range found {
			if derr := e.discard(c); derr != nil {
				err = errors.Join(err, derr)
				continue
			}
			freed += c.b.bytes()
		}
	}
	return freed, err
}

// takeForGood takes segments of the class out of the cache, of about the given bytes: not all at once, so that
// the others can be lent while the driver is at these.
func (e *Engine) takeForGood(class int, bytes int64) []cached {
	if class < carvedClasses && e.carvedBytes[class].Load() == 0 {
		return nil
	}
	if class < carvedClasses {
		return e.takeWhole(class, min(bytes, 8*maxSegment), always, anySegment)
	}
	for _, l := range e.listsOf(class) {
		if c, ok := l.popOlder(always); ok {
			return []cached{c}
		}
	}
	return nil
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
		freed += c.b.bytes()
	}
	return freed, err
}
