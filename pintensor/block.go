package pintensor

// This file has blocks: what is known of each, and the states it goes through.

import (
	"context"
	"sync"
	"time"
	"unsafe"
)

// # Life of a block
//
// A block is memory of the Go heap, page-locked, and a *block, the bookkeeping beside it. Its segment, see
// segment.go, is what memory is made and given up in: most consist of one block. The block goes through these
// states until Trim or Close gives its segment up:
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

// block is the bookkeeping of one block. It is one cache line, and each is an object of its own, so that
// cores that lend blocks of one segment don't get in each other's way.
type block struct {
	*segment         // what it is part of
	lo       uintptr // where the memory starts

	mu    sync.Mutex
	state state
	fill  byte  // what poison mode fills it with
	near  uint8 // index of the shelf where it is cached when it is free
	marks marks

	// lease counts the leases, so that Free knows its own from a later one: but for those of 2^32 leases ago.
	lease uint32

	// owner is the address of the Dense that may release it, 0 for Alloc. It is compared, never followed. A header
	// that is made at this address after the owner is gone, on memory of a view that is left, passes for it; a
	// weak pointer would tell, for twice the price of New.
	owner uintptr
	want  int64 // bytes asked for

	// at is when Alloc lent it, as long as it is lent; and when it was cached last, if the engine is aging: then
	// the lock of its list guards it.
	at time.Duration

	device *deviceUse // nil if no device ever used it
}

// marks are facts of a block that are yes or no.
type marks uint8

const (
	dirty         marks = 1 << iota // was lent before, so not zero
	seenDead                        // lent by Alloc, and the collector has found it unreachable once since
	poisoned                        // free, and holds what scribble left
	countedCached                   // counts as cached, until it is lent
	droppable                       // lent, and need not be released
)

func (b *block) is(m marks) bool { return b.marks&m != 0 }

// deviceUse is the copies from and to a block.
type deviceUse struct {
	holds    []uint32       // open holds, by serial number
	uses     []use          // copies that may not have completed
	keep     unsafe.Pointer // the memory, while there are uses
	lastHold uint32
	turn     int32 // which of the uses is asked next whether it is done
	queued   bool  // the block is in the engine's list of blocks with uses
}

// inUse reports whether holds are open or copies in flight. b.mu is held.
func (b *block) inUse() bool { return b.held() || b.oldestUse() != nil }

// held reports whether holds are open. b.mu is held.
func (b *block) held() bool { return b.device != nil && len(b.device.holds) > 0 }

// oldestUse returns the copy that was issued first of those that may not have completed, or nil. b.mu is held.
func (b *block) oldestUse() *use {
	if b.device == nil || len(b.device.uses) == 0 {
		return nil
	}
	return &b.device.uses[0]
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

// lend makes the block the property of a tensor, or of Alloc if owner is 0. Its caller has taken it from the
// cache.
func (b *block) lend(near *shelf, owner uintptr, want int64, fill byte) {
	b.mu.Lock()
	assert(b.state == free && !b.inUse(), "a block is lent that is not free")
	wasCached, was := b.is(countedCached), b.near
	b.state, b.owner, b.want, b.fill, b.marks, b.near = lent, owner, want, fill, dirty, near.index
	b.lease++
	if owner == 0 {
		b.at = now()
		b.eng.n.allocated.Add(1)
	}
	b.mu.Unlock()
	n := &b.eng.n
	if wasCached {
		n.cached.lower(was, b.size)
	}
	n.lent.raise(near.index, b.size) // before requested, and lowered after it, so that the peak of that is at most the peak of this
	n.requested.raise(near.index, want)
}

// release ends the lease, and reports whether the block is free now and the caller's to recycle. b.mu
// is held.
func (b *block) release(wasForgotten bool) (isFree bool) {
	if b.eng.tracker != nil {
		b.eng.tracker.ended(b, wasForgotten)
	}
	b.eng.n.requested.lower(b.near, b.want)
	b.eng.n.lent.lower(b.near, b.size)
	if b.owner == 0 {
		b.eng.n.allocated.Add(-1)
	}
	if b.inUse() {
		b.state = busy
		return false
	}
	b.state = free
	return true
}
