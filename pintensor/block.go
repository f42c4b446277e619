package pintensor

// This file has blocks: what is known of each, and the states it goes through.

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// # Life of a block
//
// A block is memory of the Go heap, page-locked, and a *block, the bookkeeping beside it. The memory
// is made once and goes through these states until Trim or Close gives it up:
//
//	free    in the cache, or in the hands of a call that is about to lend or discard it
//	lent    belongs to the tensor that New or Pin returned
//	busy    released, but copies are not done with it; free as soon as they are
//
//	free -> lent            New, Pin, Alloc
//	lent -> free            Release with no copy in flight; or the finalizer: no view is left
//	lent -> busy -> free    Release with copies in flight, then the last of them completes
//
// The bookkeeping must not keep lent memory alive, or the collector could never tell that a program
// dropped its tensor. So a *block knows its memory as an integer. Pointers to the memory are held by
// the tensor and its views while it is lent, by the cache while it is free, by a Hold while a copy is
// being issued, and by keep while copies run; a finalizer on the memory runs when all of these are gone.
//
// That the finalizer puts the memory back (it is not a cleanup, which would run after the memory is
// gone) is what makes this safe: memory leaves the heap only after it was unregistered.

type state uint8

const (
	free state = iota
	lent
	busy
	registered // memory of the caller's own, given to Register
	leaving    // the same, while it is being unregistered
	gone       // the same, after that
)

// young is how long a block lent by Alloc is never reclaimed; see reclaim.
const young = 10 * time.Millisecond

// block is the bookkeeping of one block.
type block struct {
	eng     *Engine
	lo      uintptr // where the memory starts
	size    int64
	class   int
	head    uintptr     // how far into its allocation the memory starts, for alignment
	locked  atomic.Bool // page-locked
	foreign bool        // memory given to Register, not the engine's own

	mu    sync.Mutex
	state state
	// owner is the address of the Dense that may release it, 0 for Alloc. It is compared, never followed. A header
	// that is made at this address after the owner is gone, on memory of a view that is left, passes for it; a
	// weak pointer would tell, for twice the price of New.
	owner    uintptr
	lease    uint64        // counts the leases, so that Free knows its own from a later one
	want     int64         // bytes asked for
	fill     byte          // what poison mode fills it with
	poisoned int64         // bytes that hold it, while the block is free
	near     *shelf        // where it is cached when it is free
	since    time.Duration // when it was put there last, if the engine is aging; its list's lock guards it
	dirty    bool          // was lent before, so not zero

	allocated time.Time // when Alloc lent it; zero otherwise
	seenDead  bool      // the collector has found it unreachable once since

	holds    []uint32 // open holds, by serial number
	lastHold uint32
	uses     []use          // copies that may not have completed
	turn     int            // which of the uses is asked next whether it is done
	keep     unsafe.Pointer // the memory, while there are uses
	queued   bool           // in the engine's list of blocks with uses

	registration *registration // of foreign memory; nil otherwise
}

// use is one piece of device work that reads or writes a block.
type use struct {
	seq  uint64 // order of issue in the engine
	done Completion
}

// Completion is device work that has been issued, such as a copy; *asynccopy.Event is one. Its methods
// may be called from any goroutine, also at the same time. An error from either says that the work
// will not run any more; that counts as completed here, and whoever issued it learns of the error from
// its own calls.
type Completion interface {
	// Done reports whether the work is completed. It does not block.
	Done() (bool, error)
	// Wait blocks until the work is completed or ctx is done.
	Wait(ctx context.Context) error
}

// Successor is a Completion that knows its place in a queue: Follows reports that c is not completed after it.
// Then only the later of the two has to be asked about. Memory that is copied again and again on one stream so
// costs no more to keep track of than memory copied once.
type Successor interface {
	Completion
	Follows(c Completion) bool
}

// lend makes the block the property of a tensor. Its caller has taken it from the cache.
func (b *block) lend(near *shelf, owner uintptr, want int64, fill byte) {
	b.mu.Lock()
	assert(b.state == free && len(b.holds) == 0 && len(b.uses) == 0, "a block is lent that is not free")
	b.state, b.owner, b.want, b.fill, b.dirty = lent, owner, want, fill, true
	b.near = near
	b.lease++
	b.poisoned = 0
	b.allocated, b.seenDead = time.Time{}, false
	if owner == 0 {
		b.allocated = time.Now()
		b.eng.n.allocated.Add(1)
	}
	b.mu.Unlock()
	near.requested.Add(want)
	near.lent.Add(b.size)
	b.eng.n.requested.raise(want)
	b.eng.n.lent.raise(b.size)
}

// release ends the lease, and reports whether the block is free now and the caller's to recycle. b.mu
// is held.
func (b *block) release(wasForgotten bool) (isFree bool) {
	if b.eng.tracker != nil {
		b.eng.tracker.ended(b, wasForgotten)
	}
	b.eng.n.requested.lower(b.want)
	b.eng.n.lent.lower(b.size)
	if !b.allocated.IsZero() {
		b.eng.n.allocated.Add(-1)
	}
	if len(b.holds) > 0 || len(b.uses) > 0 {
		b.state = busy
		return false
	}
	b.state = free
	return true
}

// reclaim is the finalizer of every block's memory. It must not refer to a block, or that block's
// memory would never be unreachable.
//
// Between Engine.Alloc returning an address and tensor making a slice of it, nothing that the
// collector sees may refer to the memory. So a block lent by Alloc must be found unreachable twice, and
// some time after it was lent.
func reclaim(p *byte) {
	head := -uintptr(unsafe.Pointer(p)) % pageSize // the block starts on the first page boundary
	b := blocks.find(uintptr(unsafe.Pointer(p)) + head)
	if b == nil {
		return // it was given up just as the collector found it
	}
	mem := unsafe.Add(unsafe.Pointer(p), head)
	runtime.SetFinalizer(p, reclaim)
	b.mu.Lock()
	if b.state != lent && b.state != busy {
		b.mu.Unlock()
		return
	}
	if b.state == lent && !b.allocated.IsZero() && (!b.seenDead || time.Since(b.allocated) < young) {
		b.seenDead = true
		b.mu.Unlock()
		return
	}
	assert(len(b.uses) == 0, "a block in flight was unreachable")
	b.holds = b.holds[:0] // nobody has these holds any more: a Hold refers to the memory
	dropped := b.state == lent
	forgotten := dropped && b.owner != 0 // memory of Alloc has nobody who releases it
	if forgotten {
		b.eng.n.forgotten.Add(1) // before it counts as not lent: who looks in between misses none
	}
	if dropped {
		b.release(forgotten)
	}
	b.state = free
	b.mu.Unlock()
	b.eng.recycleUnreachable(b, mem)
	if dropped {
		b.eng.n.reclaimed.Add(1) // last: who sees it finds the block in the cache
	}
}
