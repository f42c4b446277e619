package pintensor

// This file has what the cache does with carved segments: it tells which are in it whole, takes those out, and
// keeps only those alive. See segment.go.

import (
	"math"
	"slices"
	"time"
	"unsafe"
)

// always is later than any time that a block was cached.
const always time.Duration = math.MaxInt64

// lockClass locks the lists of a carved class, of all shelves, and returns them.
func (e *Engine) lockClass(class int) (lists []*freeList, unlock func()) {
	lists = e.listsOf(class)
	for _, l := range lists {
		l.mu.Lock()
	}
	return lists, func() {
		for _, l := range lists {
			l.mu.Unlock()
		}
	}
}

// count counts, for each segment, the blocks that have been in the lists since until.
func count(lists []*freeList, until time.Duration) {
	for _, l := range lists {
		for _, c := range l.free {
			if c.b.at <= until {
				c.b.carved.cached++
			}
		}
	}
}

// uncount undoes it.
func uncount(lists []*freeList) {
	for _, l := range lists {
		for _, c := range l.free {
			c.b.carved.cached = 0
		}
	}
}

// isWhole reports whether all blocks of the segment were counted.
func (c *carved) isWhole() bool { return int(c.cached) == len(c.blocks) }

// takeWhole takes segments out of the cache all of whose blocks have been in it since until, and which choose
// likes, until those are of at least the given bytes. It returns their first blocks.
//
// It goes through all cached blocks of the class, so who takes many asks for several at a time.
func (e *Engine) takeWhole(class int, bytes int64, until time.Duration, choose func(*segment) bool) (taken []cached) {
	lists, unlock := e.lockClass(class)
	defer unlock()
	count(lists, until)
	for _, l := range lists {
		for _, c := range l.free {
			s := c.b.segment
			if bytes <= 0 || s.carved.chosen || !s.carved.isWhole() || !choose(s) {
				continue
			}
			if mem := c.pointer(); mem != nil {
				s.carved.chosen = true
				taken = append(taken, cached{s.first, s.start(mem)})
				bytes -= s.bytes()
			}
		}
	}
	if len(taken) > 0 {
		for _, l := range lists {
			l.free = slices.DeleteFunc(l.free, func(c cached) bool { return c.b.carved.chosen })
		}
	}
	for _, c := range taken {
		c.b.carved.chosen, c.b.carved.cached = false, 0
		e.n.cached.lower(c.b.near, c.b.bytes())
	}
	uncount(lists)
	return taken
}

func anySegment(*segment) bool { return true }

// weigh makes the cache refer to the segments of the class that are in it whole, and to no others.
func (e *Engine) weigh(class int) {
	lists, unlock := e.lockClass(class)
	defer unlock()
	count(lists, always)
	for _, l := range lists {
		for i, c := range l.free {
			if !c.b.carved.isWhole() {
				l.free[i].mem = nil
			} else if c.mem == nil {
				l.free[i].mem = c.b.memory()
			}
		}
	}
	uncount(lists)
}

// weighAll does so with every class that there are segments of.
func (e *Engine) weighAll() {
	for class := range carvedClasses {
		if e.carvedBytes[class].Load() > 0 {
			e.weigh(class)
		}
	}
}

// pointer returns the block's memory: nil if the collector has just found its segment unreachable.
func (c cached) pointer() unsafe.Pointer {
	if c.mem != nil {
		return c.mem
	}
	return c.b.memory()
}

// removeCached takes the blocks of an unreachable segment out of the cache.
func (e *Engine) removeCached(s *segment) {
	if s.carved == nil {
		return
	}
	lists, unlock := e.lockClass(int(s.class))
	defer unlock()
	for _, l := range lists {
		had := len(l.free)
		l.free = slices.DeleteFunc(l.free, func(c cached) bool { return c.b.segment == s })
		e.n.cached.lower(s.first.near, int64(had-len(l.free))*s.size)
	}
}

// shelve puts free blocks of a new segment into the cache, in one go. If they are all of it, mem is its memory, and
// shelve reports false if the engine is closed or the cache full. If mem is nil, another of its blocks is in
// use; they come without a pointer then, and are put there in any case.
func (e *Engine) shelve(near *shelf, s *segment, free []*block, mem unsafe.Pointer) bool {
	if len(free) == 0 {
		return true
	}
	bytes := int64(len(free)) * s.size
	l := e.list(near, int(s.class))
	l.mu.Lock()
	defer l.mu.Unlock()
	if mem == nil {
		e.n.cached.raise(near.index, bytes)
	} else if e.closed.Load() || !e.mayCache(near.index, bytes) {
		return false
	}
	l.cached += bytes
	for _, b := range slices.Backward(free) { // the first is lent first
		c := cached{b: b}
		if mem != nil {
			c.mem = unsafe.Add(mem, b.lo-s.base)
		}
		if e.aging.Load() {
			b.at = now()
		}
		b.marks |= countedCached
		l.free = append(l.free, c)
	}
	return true
}

// spare returns how many cached bytes can be given up: those beside blocks that are in use can't.
func (e *Engine) spare() int64 {
	n := e.n.cached.now()
	for class := range carvedClasses {
		if e.carvedBytes[class].Load() > 0 {
			n -= e.tied(class)
		}
	}
	return n
}

// tied returns how many bytes of the class are cached beside blocks that are not.
func (e *Engine) tied(class int) (n int64) {
	lists, unlock := e.lockClass(class)
	defer unlock()
	count(lists, always)
	for _, l := range lists {
		for _, c := range l.free {
			if !c.b.carved.isWhole() {
				n += c.b.size
			}
		}
	}
	uncount(lists)
	return n
}
