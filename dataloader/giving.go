package dataloader

// How the loop gives its batches' memory back to the workers: without the lock, where nothing else is to be done, by
// putting it onto a stack that workers empty when they have the lock anyway. With small batches the
// loop and a worker would otherwise wait for each other at every one.

import (
	"slices"
	"sync/atomic"
)

// returnStack is what the loop has given back since a worker looked, and what it has to know for that.
type returnStack struct {
	top atomic.Pointer[slot] // the last one; each knows the one before it
	_   line

	waiting  atomic.Int32 // workers that wait for something to do
	spinning atomic.Int32 // workers that look at news again and again, before they wait
	more     atomic.Bool  // there are more slots than there are to be: whoever gives one back has to look
	resting  atomic.Bool  // the loop ends when it gives its batch back
	_        line
}

// push puts a slot onto the stack.
func (g *returnStack) push(s *slot) {
	for {
		top := g.top.Load()
		s.below = top
		if g.top.CompareAndSwap(top, s) {
			return
		}
	}
}

// pending reports whether something is on the stack.
func (g *returnStack) pending() bool { return g.top.Load() != nil }

// drain takes what was given back, with a token for each. The lock is held.
func (b *board) drain() {
	if b.closed || !b.pending() { // of a run that is over the slots are elsewhere
		return
	}
	from := len(b.idle)
	for s := b.top.Swap(nil); s != nil; {
		below := s.below
		s.below = nil
		b.idle = append(b.idle, s)
		b.tokens++
		s = below
	}
	slices.Reverse(b.idle[from:]) // the first was given last
}

// returnKept gives the token of a slot back that is kept.
func (r *run) returnKept() { r.returnWithCare(nil, true) }

// release takes the loop, or a worker, out of a slot, and gives it and its token back. Where the loop's last turn does, the
// loop ends in the same step: before, workers that find nothing to do would end though this token is one to read
// ahead with, and after, they could take one more than that.
func (r *run) release(s *slot, byLoop bool) error {
	if r.resting.Load() || r.more.Load() {
		alive, err := s.giveBack(nil, byLoop)
		if alive {
			r.returnWithCare(s, byLoop)
		}
		return err
	}
	alive, err := s.giveBack(&r.returnStack, byLoop)
	if !alive || r.waiting.Load() == 0 || r.spinning.Load() > 0 {
		return err // whoever is about to wait looks at the stack once more, and who looks does too
	}
	r.mu.Lock()
	r.news.Add(1)
	r.mu.Unlock() // a worker that was about to wait does now, and is not missed
	r.work.Signal()
	return err
}

func (r *run) returnWithCare(s *slot, byLoop bool) {
	r.mu.Lock()
	r.drain()
	rests := byLoop && r.resting.Load()
	if rests {
		r.looping = false
		r.resting.Store(false)
	}
	surplus := s != nil && !r.over && len(r.slots) > r.most // the depth was reduced
	switch {
	case surplus:
		delete(r.slots, s)
	case s != nil && !r.over:
		r.idle = append(r.idle, s)
	}
	r.more.Store(len(r.slots) > r.most)
	r.tokens++
	r.news.Add(1)
	wake := r.waiting.Load() > 0 && r.spinning.Load() == 0
	r.mu.Unlock()
	switch {
	case rests:
		r.work.Broadcast()
	case wake:
		r.work.Signal()
	}
	if surplus {
		r.l.discard(s)
	}
}
