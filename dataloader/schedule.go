package dataloader

// What the workers of a run do next.
//
// There are as many tokens as batches may be in memory at once: Prefetch, and one in the loop's hands. A
// worker takes a token, the next place and a slot in one step: so the batch that the loop waits for always
// has one, and nothing can deadlock.
//
// The loop gives tokens and slots back without the lock, see giving.go: it would meet a worker there for each batch.

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pintensor/pin/internal/spin"
)

// board is what there is to do in a run, and who waits for it.
type board struct {
	returnStack

	mu      sync.Mutex
	work    sync.Cond     // there may be something to do for a worker
	news    atomic.Uint32 // changes when there is, but for what the loop gives
	live    int           // workers that have not ended
	looping bool          // a loop runs
	closed  bool

	leg    *leg // the loop's
	next   *leg // after it; nil: not known, or none
	asked  bool // whether next was looked for
	place  int  // the next to be begun
	tokens int  // left; below 0 when there are to be fewer
	most   int  // of them
	base   int  // slots that are simply taken: the run began with so many
	bare   int  // of those, that have been taken and may be without memory yet
	coming int  // of those, that are not among the run's yet
	crew   []*worker
	wanted int // of the crew: the first so many

	cores    int
	spinners int // workers that may spin

	idle   []*slot // that wait to be filled, in the order in which they were let go
	shared []task  // batches that were begun, of which parts are left to fill
}

// task is what a worker does at a time: rows from lo to hi-1 of a slot, or, if it has none, to begin a batch.
type task struct {
	s      *slot
	turn   uint64
	lo, hi int
	size   int // rows that one worker takes at a time

	leg     *leg // where the batch is that is to be begun, nil if it has been
	place   int
	sharers int  // workers that are to fill it together; 0: as few as may be
	alone   bool // there is one worker

	expand bool // get one slot more, with memory, for the token that was taken
}

func (b *board) init(g *leg, tokens, workers int) {
	b.work.L = &b.mu
	b.leg, b.tokens, b.most, b.base, b.wanted = g, tokens, tokens, tokens, workers
	if b.cores = runtime.GOMAXPROCS(0); b.cores > 1 {
		b.spinners = 1
	}
}

// pick returns what w is to do next: a part of a batch that is begun, being needed first, or a batch to
// begin. It waits until there is something. ok is false when the worker is to end.
func (r *run) pick(w *worker) (t task, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	looked := false
	for {
		if len(r.idle) == 0 || !r.mayBegin() || r.l.keepsWarm {
			r.drain() // not at each batch: the line of memory would go from core to core twice
		}
		switch {
		case r.closed:
			r.dismiss(w)
			return t, false
		case len(r.shared) > 0:
			t = r.part()
			r.passOn()
			return t, true
		case w.number >= r.wanted:
			r.dismiss(w)
			r.passOn()
			return t, false
		case r.mayBegin() && r.grown() && r.bare == 0:
			r.tokens--
			return task{expand: true}, true
		case r.mayBegin() && !r.grown():
			t = r.take()
			r.passOn()
			return t, true
		case r.tokens > 0 && !r.asked && !r.l.cfg.SingleEpoch:
			r.lookAhead()
		case !r.looping:
			r.dismiss(w)
			return t, false
		case !looked && int(r.spinning.Load()) < r.spinners:
			looked = true
			r.spin()
		default:
			began := time.Since(r.began)
			r.waiting.Add(1)
			if !r.pending() { // only now does the loop know of the wait
				r.work.Wait()
			}
			r.waiting.Add(-1)
			if r.looping {
				w.idled.Add(int64(time.Since(r.began) - began))
			}
			looked = false
		}
	}
}

// grown reports whether the next batch would be in one slot more than the run began with. Whether there is memory for that
// must be known before a place is taken, which the loop will wait for; and not before those that the run began with have
// theirs, whose batches it waits for already.
func (r *run) grown() bool { return len(r.idle) == 0 && len(r.slots)+r.coming >= r.base }

// furnished notes that one of the slots that are simply taken has memory, or will have none.
func (r *run) furnished() {
	r.mu.Lock()
	r.bare--
	last := r.bare == 0
	if last {
		r.news.Add(1)
	}
	r.mu.Unlock()
	if last {
		r.work.Broadcast()
	}
}

// expand gets a slot with memory. If there is none the token goes, with those that there is no slot for either. To get
// memory may take seconds, in which the run may end: the worker is in the slot meanwhile.
func (r *run) expand() {
	s := r.adopt(false)
	if s == nil || !s.occupy(r) {
		return
	}
	if err := s.reserve(0); err == nil {
		r.release(s, false) // an error of giving memory back comes from Close too
		return
	}
	r.l.shallow.Store(true)
	r.l.depth.Store(int64(r.l.shallowest))
	r.mu.Lock()
	over := r.over // then the slot is put where it belongs by who kills it, or leave does
	delete(r.slots, s)
	r.most--
	for r.tokens > 0 && r.most > max(r.base, len(r.slots)) {
		r.tokens--
		r.most--
	}
	r.mu.Unlock()
	s.leave()
	if !over {
		r.l.put(s)
	}
}

// mayBegin reports whether there is a batch to begin, and a token for it.
func (b *board) mayBegin() bool { return b.tokens > b.reserved() && b.place < b.horizon() }

// passOn wakes another worker if there is more to do. Whoever made it did not if a worker was spinning, which may
// have been busy with the first of several things since.
func (b *board) passOn() {
	if b.waiting.Load() > 0 && b.spinning.Load() == 0 && (len(b.shared) > 0 || b.mayBegin()) {
		b.work.Signal()
	}
}

// spin waits for news for a moment, without the lock and without sleeping.
func (b *board) spin() {
	b.spinning.Add(1)
	seen := b.news.Load()
	b.mu.Unlock()
	spin.Until(shortSpin, 1, func() bool { return b.pending() || b.news.Load() != seen })
	b.mu.Lock()
	b.spinning.Add(-1)
}

// shortSpin is some 20 µs of spinning, longSpin some 500.
const shortSpin, longSpin = 32, 800

// reserved is how many tokens are not for reading ahead: between loops, the one for the loop's hands.
func (b *board) reserved() int {
	if b.looping {
		return 0
	}
	return 1
}

// lookAhead finds the next leg. It gives the lock up meanwhile: a BatchSampler may be asked.
func (r *run) lookAhead() {
	r.asked = true
	g := r.leg
	r.mu.Unlock()
	var next *leg
	defer func() { // it may have called runtime.Goexit
		r.mu.Lock()
		r.next = next
	}()
	next = r.l.following(g)
}

// horizon is the place that batches may be begun up to.
func (b *board) horizon() int {
	if b.next != nil {
		return b.next.end
	}
	return b.leg.end
}

// take takes a token, the next place, and an idle slot if there is one.
func (r *run) take() task {
	t := task{s: r.takeIdle(), leg: r.leg, place: r.place, alone: r.wanted == 1}
	if r.most-1 < r.wanted { // fewer batches at a time than workers
		t.sharers = r.wanted
	}
	if t.place >= r.leg.end {
		t.leg = r.next
	}
	if t.s == nil {
		r.bare++
		r.coming++
	}
	r.tokens--
	r.place++
	return t
}

// takeIdle takes a slot out of idle, if there is one. On the host that is the one let go last, whose memory
// is still in a cache; with a device the one let go first, whose copies have had most time.
func (r *run) takeIdle() *slot {
	n := len(r.idle)
	if n == 0 {
		return nil
	}
	if r.l.cfg.Stream == nil {
		s := r.idle[n-1]
		r.idle = r.idle[:n-1]
		return s
	}
	s := r.idle[0]
	copy(r.idle, r.idle[1:]) // not r.idle[1:], which would use the array up
	r.idle = r.idle[:n-1]
	return s
}

// part takes a part off the first batch in shared.
func (r *run) part() task {
	first := &r.shared[0]
	t := *first
	t.hi = min(t.lo+t.size, t.hi)
	if first.lo = t.hi; first.lo == first.hi {
		n := copy(r.shared, r.shared[1:])
		r.shared[n] = task{}
		r.shared = r.shared[:n]
	}
	return t
}

// share offers the rows of t, in parts, to all workers.
func (r *run) share(t task, parts int) {
	r.mu.Lock()
	r.shared = append(r.shared, t)
	r.news.Add(1)
	wake := min(int(r.waiting.Load()), parts-int(r.spinning.Load()))
	r.mu.Unlock()
	for range wake {
		r.work.Signal()
	}
}

// muster begins a loop, and returns the workers to be started for it.
func (r *run) muster() (start []*worker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.looping = true
	r.resting.Store(false)
	return r.hire()
}

// hire returns those of the workers wanted that are not there. The lock is held.
func (b *board) hire() (start []*worker) {
	for _, w := range b.crew[:b.wanted] {
		if !w.live {
			w.live = true
			b.live++
			start = append(start, w)
		}
	}
	return start
}

// setCrew changes the number of workers, and setDepth the number of batches that are read ahead.
func (r *run) setCrew(n int) {
	r.mu.Lock()
	r.wanted = min(n, len(r.crew))
	var start []*worker
	if r.looping && !r.closed {
		start = r.hire()
	}
	r.news.Add(1)
	r.mu.Unlock()
	r.work.Broadcast() // some may be too many
	for _, w := range start {
		r.launch(w)
	}
}

func (r *run) setDepth(n int) {
	r.mu.Lock()
	r.drain()
	most := min(n+1, r.l.most())
	r.tokens += most - r.most
	r.most = most
	var surplus []*slot
	for len(r.slots) > most && len(r.idle) > 0 {
		s := r.takeIdle()
		delete(r.slots, s)
		surplus = append(surplus, s)
	}
	r.more.Store(len(r.slots) > most)
	r.news.Add(1)
	r.mu.Unlock()
	r.work.Broadcast()
	for _, s := range surplus {
		r.l.discard(s)
	}
}

// dismiss notes that w ends. The lock is held.
func (r *run) dismiss(w *worker) {
	w.live = false
	r.live--
	if r.closed && r.live == 0 {
		close(r.done)
	}
}

// rest ends a loop whose leg is over: workers that find nothing more to do end.
func (r *run) rest() {
	r.mu.Lock()
	r.looping = false
	r.resting.Store(false)
	r.news.Add(1)
	r.mu.Unlock()
	r.work.Broadcast()
}

// proceed makes the next leg the loop's, if that is what a loop from p on goes over.
func (r *run) proceed(p position) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.next == nil || !r.next.isAt(p) {
		return false
	}
	r.leg, r.next, r.asked = r.next, nil, false
	return true
}

// close makes all workers end when they have done what they are doing. It returns whether it is the first call.
func (r *run) close() bool {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.news.Add(1)
	if first && r.live == 0 {
		close(r.done)
	}
	r.mu.Unlock()
	r.work.Broadcast()
	return first
}
