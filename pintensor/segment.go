package pintensor

// This file has segments: the pieces of memory that are made, page-locked and given up whole.

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// # Segments
//
// To page-lock memory takes the driver 85 µs and more, however little it is, and the Go heap gives memory pages of
// its own only from 32 KiB on. So blocks smaller than that are carved from segments: one object of the Go heap,
// registered once, cut into blocks of one class. A copy must lie inside one registration; a block lies inside one
// segment. From 32 KiB on a segment is one block, so that no memory is held beside it and the collector finds each
// dropped tensor by itself. So is what Alloc lends, of any size, since nobody but the collector gives it back.
//
// A segment is as large as those of its class together, but at least 32 KiB and at most 512: a program with one
// small tensor has 32 KiB for it, one with a thousand of 4 KiB registers 12 times, which is 2 µs for each. Where
// there is a limit it takes an eighth of what is left of it, and a single block where that is all there is room for.
//
// # Why no memory goes away under a view
//
// A pointer to any part of an object keeps all of it: so a view of a block keeps its segment, and what it can keep
// from being reused at most is the 512 KiB of that. The segment's memory is unregistered only when all its blocks
// are in the cache, from where they are taken in one step (takeWhole), or when the collector has found it
// unreachable.
//
// For the collector to find that, the cache must not refer to the memory on account of the free blocks
// beside the ones that the program has. So it refers to free blocks in two ways: with a pointer, and with the
// segment's weak pointer. A block that comes back is put into the cache with a pointer. Blocks that nobody has had
// yet are put there without. After each cycle of the collector, and before one that a call which needs memory
// runs, the cache is gone through (weigh): blocks of segments of which others are not in the cache lose their
// pointers, those of segments that are in the cache whole get them. So
//
//   - a segment that is in the cache whole is kept by it;
//   - one of which the program has a tensor or view, or a copy a block, is kept by that, and the weak pointer gives the
//     address of its free blocks, in 8 ns;
//   - one whose other blocks were all dropped is found unreachable by the next cycle, or the one after. The
//     runtime then clears the weak pointer before it calls the finalizer, so none of its free blocks can be lent
//     in between. The finalizer (reclaim) takes all the dropped blocks back, and makes a new weak pointer.
//
// Dropped blocks beside one that is still in use come back when that one does: this is the price of carving.
// A block that is lost from sight for the moment in which a cycle has ended and its segment's finalizer has not run
// is skipped by whoever looks for one.

const (
	minSegment = minBlock
	maxSegment = 512 << 10 // four times as much would save a block of 4 KiB 0.6 µs, and let a view keep 2 MiB
)

// segment is memory that is registered in one piece, and its blocks.
type segment struct {
	eng     *Engine
	base    uintptr // where the memory starts
	size    int64   // of a block
	head    uint32  // how far into its allocation the memory starts, for alignment
	class   uint16
	foreign bool        // memory given to Register, not the engine's own
	locked  atomic.Bool // page-locked

	first  *block
	carved *carved // what segments of small blocks have

	registration *registration // of foreign memory; nil otherwise
}

// carved is the blocks of a segment.
type carved struct {
	blocks []*block

	mu   sync.Mutex // no other is taken under it
	weak weak.Pointer[byte]

	// The locks of all lists of the class guard these; they are 0 while none is gone through.
	cached int32
	chosen bool
}

// cut returns a segment of n blocks in the memory at mem.
func (e *Engine) cut(class int, size int64, n int, mem unsafe.Pointer, head uintptr, near *shelf) *segment {
	s := &segment{eng: e, base: uintptr(mem), size: size, head: uint32(head), class: uint16(class)}
	s.first = &block{segment: s, lo: s.base, near: near.index}
	if class >= carvedClasses {
		return s
	}
	s.carved = &carved{blocks: make([]*block, n), weak: weak.Make((*byte)(mem))}
	s.carved.blocks[0] = s.first
	for i := 1; i < n; i++ {
		s.carved.blocks[i] = &block{segment: s, lo: s.base + uintptr(i)*uintptr(size), near: near.index}
	}
	return s
}

// count returns how many blocks the segment has.
func (s *segment) count() int {
	if s.carved == nil {
		return 1
	}
	return len(s.carved.blocks)
}

// bytes returns the size of the segment.
func (s *segment) bytes() int64 { return int64(s.count()) * s.size }

// blockAt returns the block that p, an address in the segment, lies in.
func (s *segment) blockAt(p uintptr) *block {
	if s.carved == nil {
		return s.first
	}
	return s.carved.blocks[uint32(p-s.base)/uint32(s.size)]
}

// all returns the segment's blocks.
func (s *segment) all() []*block {
	if s.carved == nil {
		return []*block{s.first}
	}
	return s.carved.blocks
}

// memory returns a pointer to the memory of a block in a carved segment, or nil if the collector has just found the
// segment unreachable.
func (b *block) memory() unsafe.Pointer {
	b.carved.mu.Lock()
	base := b.carved.weak.Value()
	b.carved.mu.Unlock()
	if base == nil {
		return nil
	}
	return unsafe.Add(unsafe.Pointer(base), b.lo-b.base)
}

// start returns the start of the block that p points into.
func (b *block) start(p unsafe.Pointer) unsafe.Pointer { return unsafe.Add(p, -int(uintptr(p)-b.lo)) }

// start returns the start of the segment that p points into.
func (s *segment) start(p unsafe.Pointer) unsafe.Pointer {
	return unsafe.Add(p, -int(uintptr(p)-s.base))
}

// allocation returns the object of the heap that the segment's memory lies in.
func (s *segment) allocation(mem unsafe.Pointer) *byte {
	return (*byte)(unsafe.Add(mem, -int(s.head)))
}

// arm has the collector call reclaim.
func (s *segment) arm(mem unsafe.Pointer) { runtime.SetFinalizer(s.allocation(mem), reclaim) }

// disarm undoes it.
func (s *segment) disarm(mem unsafe.Pointer) { runtime.SetFinalizer(s.allocation(mem), nil) }

// blocksFor returns how many blocks of the class the next segment is to have.
func (e *Engine) blocksFor(class int, size int64) int {
	if class >= carvedClasses {
		return 1
	}
	want := min(max(e.carvedBytes[class].Load(), minSegment), maxSegment)
	if e.limit > 0 {
		want = min(want, (e.limit-e.owned.Load())/8)
	}
	return int(max(want/size, 1))
}
