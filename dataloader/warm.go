package dataloader

// Which of the idle slots a single worker fills next.
//
// The one that it has filled last, if that can be had: a batch of some hundred KiB fits into a core's cache, but two often
// don't, and to write to what is not there takes a fifth longer. A loop that does little with its batches has given that one
// back about half a microsecond after it was handed over, so the worker waits for it for that long.

const (
	// moment is how often the worker looks whether the slot is back: a microsecond or less, where reading the batch takes twenty
	// and more.
	moment = 256

	// mostVain is how many batches the worker does not wait with, at most, because it has waited in vain before.
	mostVain = 64
)

// warm is what a worker knows of the slot that it has filled last.
type warm struct {
	last  *slot
	vain  int // how many batches were not waited with, the last time: twice as many for each wait in vain, 0 after one that was not
	pause int // batches that are not to be waited with, still
}

// warmer returns, in the place of s, the slot that the loop has given back last, if one comes back in a moment. As a rule that is
// the one that w has filled last.
func (w *worker) warmer(s *slot) *slot {
	r, h := w.r, &w.warm
	if s == h.last {
		return s
	}
	if !r.pending() && !h.wait(r.pending) {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
	if n := len(r.idle); n > 0 {
		s, r.idle[n-1] = r.idle[n-1], s
	}
	return s
}

// wait waits for a moment until there is something, unless that was in vain lately.
func (h *warm) wait(there func() bool) bool {
	if h.pause > 0 {
		h.pause--
		return false
	}
	for range moment {
		if there() {
			h.vain = 0
			return true
		}
	}
	h.vain = min(max(2*h.vain, 1), mostVain)
	h.pause = h.vain
	return false
}
