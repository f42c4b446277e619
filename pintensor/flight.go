package pintensor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Copies in flight are asked whether they are done when the engine is used, by whoever uses it. There
// is no goroutine for it: it would have to be stopped, could outlive the driver, and would take time
// from the ones that work. No completion is asked while a lock is held, since asking is a call to the
// driver.

const (
	pollSome = 4                  // what a call that is in a hurry looks at
	pollAll  = int(^uint(0) >> 1) // what one that needs memory, or exact figures, looks at
)

// flight is the list of an engine's blocks that copies use, lent or released.
type flight struct {
	n    atomic.Int64 // len(list), to be read without the lock
	mu   sync.Mutex
	list []*block
	next int // where the next poll goes on, so that no slow block is in the others' way
}

func (f *flight) push(b *block) {
	f.mu.Lock()
	f.list = append(f.list, b)
	f.n.Store(int64(len(f.list)))
	f.mu.Unlock()
}

// take returns up to max blocks, going round the list.
func (f *flight) take(buf []*block, max int) []*block {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range min(max, len(f.list)) {
		if f.next >= len(f.list) {
			f.next = 0
		}
		buf = append(buf, f.list[f.next])
		f.next++
	}
	return buf
}

// drop removes b if it has no uses.
func (f *flight) drop(b *block) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.device.queued || len(b.device.uses) > 0 {
		return
	}
	for i, x := range f.list {
		if x == b {
			last := len(f.list) - 1
			f.list[i] = f.list[last]
			f.list[last] = nil
			f.list = f.list[:last]
			b.device.queued = false
			break
		}
	}
	f.n.Store(int64(len(f.list)))
}

// poll asks up to max blocks in flight whether their copies are done.
func (e *Engine) poll(max int) {
	if e.flight.n.Load() == 0 {
		return
	}
	var few [pollSome]*block
	for _, b := range e.flight.take(few[:0], max) {
		e.complete(b, max)
	}
}

// complete asks up to max of the uses of b whether they are done, and recycles the block if it was
// released and they were the last. It asks others each time, so that some that take long keep none waiting.
func (e *Engine) complete(b *block, max int) {
	var few [pollSome]use
	b.mu.Lock()
	asked := few[:0]
	d := b.device
	for i := range min(max, len(d.uses)) {
		asked = append(asked, d.uses[(int(d.turn)+i)%len(d.uses)])
	}
	d.turn = int32((int(d.turn) + len(asked)) % (len(d.uses) + 1))
	b.mu.Unlock()
	if len(asked) == 0 {
		e.flight.drop(b) // its uses ended before it was in the list
		return
	}
	finished := asked[:0]
	for _, u := range asked {
		if done, err := u.done.Done(); done || err != nil {
			finished = append(finished, u)
		}
	}
	e.finish(b, finished)
}

// finish removes uses that have completed.
func (e *Engine) finish(b *block, finished []use) {
	if len(finished) == 0 {
		return
	}
	b.mu.Lock()
	d := b.device
	had := len(d.uses)
	for _, f := range finished {
		for i := range d.uses {
			if d.uses[i].seq == f.seq { // another goroutine may have removed it
				d.uses = slices.Delete(d.uses, i, i+1)
				break
			}
		}
	}
	var mem unsafe.Pointer
	recycle, idle := false, had > 0 && len(d.uses) == 0
	if idle {
		mem, d.keep = d.keep, nil
		e.n.inFlight.lower(b.size)
		recycle = b.settle()
	}
	b.mu.Unlock()
	if idle {
		e.flight.drop(b)
	}
	if recycle {
		e.note(e.recycle(b, b.start(mem)))
	}
}

// waitOldest waits for the copy that was issued first, among those of released blocks if there are
// any: their memory comes back for certain. It reports whether there was one that ended before ctx did.
func (e *Engine) waitOldest(ctx context.Context) bool {
	var oldest use
	var of *block
	ofReleased := false
	for _, b := range e.flight.take(nil, pollAll) {
		b.mu.Lock()
		isReleased := b.state == busy
		if first := b.oldestUse(); first != nil {
			u := *first
			if of == nil || isReleased && !ofReleased || isReleased == ofReleased && u.seq < oldest.seq {
				oldest, of, ofReleased = u, b, isReleased
			}
		}
		b.mu.Unlock()
	}
	if of == nil {
		return false
	}
	e.n.waits.Add(1)
	if err := oldest.done.Wait(ctx); err != nil && ctx.Err() != nil {
		return false
	}
	e.finish(of, []use{oldest})
	return true
}
