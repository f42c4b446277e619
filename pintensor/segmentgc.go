package pintensor

// This file has what happens when the collector runs: segments that nobody has any part of come back.

import (
	"runtime"
	"sync/atomic"
	"unsafe"
	"weak"
)

// reclaim is the finalizer of every segment's memory. It must not refer to a segment, or that segment's
// memory would never be unreachable. When it runs, nobody has a pointer to any part of the memory: the blocks
// that are lent, or held, have been dropped, and those that are free are in the cache without a pointer.
func reclaim(p *byte) {
	s := blocks.allocatedAt(uintptr(unsafe.Pointer(p)))
	if s == nil {
		return // it was given up just as the collector found it
	}
	mem := unsafe.Add(unsafe.Pointer(p), s.head)
	s.arm(mem)
	dropped := s.endLeases()
	if s.carved != nil && !(raceEnabled && len(dropped) > 0) {
		s.carved.renew(mem) // after its blocks are free: from here on the cache lends them again
	}
	s.eng.takeBack(s, mem, dropped)
	runtime.KeepAlive(p)
}

// renew makes a new weak pointer. The runtime has cleared the one before.
func (c *carved) renew(mem unsafe.Pointer) {
	c.mu.Lock()
	c.weak = weak.Make((*byte)(mem))
	c.mu.Unlock()
}

// droppedBlock is a block that was lent or busy when its memory was unreachable.
type droppedBlock struct {
	*block
	lent bool
}

// endLeases makes all blocks of an unreachable segment free, and returns those that were not.
//
// Between Engine.Alloc returning an address and tensor making a slice of it, nothing that the
// collector sees may refer to the memory. So a segment in which Alloc has lent a block must be found unreachable
// twice, and some time after.
func (s *segment) endLeases() (dropped []droppedBlock) {
	if s.isYoung() {
		return nil
	}
	for _, b := range s.all() {
		b.mu.Lock()
		if b.state == lent || b.state == busy {
			assert(b.oldestUse() == nil, "a block in flight was unreachable")
			b.loseHolds()
			was := droppedBlock{b, b.state == lent}
			if was.lent {
				forgotten := b.owner != 0 && !b.is(droppable) // memory of Alloc has nobody who releases it
				if forgotten {
					b.eng.n.forgotten.Add(1) // before it counts as not lent: who looks in between misses none
				}
				b.release(forgotten)
			}
			b.state = free
			dropped = append(dropped, was)
		}
		b.mu.Unlock()
	}
	return dropped
}

func (s *segment) isYoung() (isYoung bool) {
	for _, b := range s.all() {
		b.mu.Lock()
		if b.state == lent && b.owner == 0 && (!b.is(seenDead) || now()-b.at < young) {
			b.marks |= seenDead
			isYoung = true
		}
		b.mu.Unlock()
	}
	return isYoung
}

// takeBack puts the blocks of a segment that was unreachable into the cache. A finalizer calls it.
func (e *Engine) takeBack(s *segment, mem unsafe.Pointer, dropped []droppedBlock) {
	switch {
	case len(dropped) == 0 && s.carved != nil:
		e.weigh(int(s.class)) // if they were all in the cache: the last came back as weigh was at it
	case raceEnabled && len(dropped) > 0:
		// The detector knows nothing of the order that the collector makes: it would take the next
		// owner's first write for a race with the last access of the owner that went away. Memory that
		// comes from the heap anew has no past.
		e.removeCached(s)
		e.afterwards(func() {
			e.note(e.discard(cached{s.first, mem}))
			e.countReclaimed(dropped)
		})
		return
	default:
		for _, b := range dropped {
			c := cached{b.block, unsafe.Add(mem, b.lo-s.base)}
			if e.poison {
				c.b.scribble(c.mem)
			}
			if !e.push(c) {
				e.afterwards(func() { e.note(e.giveUpBlock(c)) })
			}
		}
	}
	e.countReclaimed(dropped) // last: who sees it finds the blocks in the cache
}

func (e *Engine) countReclaimed(dropped []droppedBlock) {
	for _, b := range dropped {
		if b.lent {
			e.n.reclaimed.Add(1)
		}
	}
}

// gcWatch goes through the cache after each cycle of the collector, as long as there are carved segments.
type gcWatch struct{ armed atomic.Bool }

// watchGC begins it. There is no goroutine for it: the runtime calls the finalizer of an object that each call makes anew.
func (e *Engine) watchGC() {
	if e.gc.armed.CompareAndSwap(false, true) {
		runtime.SetFinalizer(&cycle{e}, (*cycle).ended)
	}
}

// cycle is an object that nobody refers to, so that it is found in the next cycle of the collector.
type cycle struct{ e *Engine }

func (c *cycle) ended() {
	c.e.gc.armed.Store(false)
	if c.e.carvedSegments.Load() > 0 {
		c.e.watchGC()
		c.e.weighAll()
	}
}
