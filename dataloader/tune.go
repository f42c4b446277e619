package dataloader

// How many workers, and how many batches ahead, where Config leaves that open.
//
// What counts is how many batches the loop gets in a time, and only while it waits for them: a loop that
// always finds its batch ready gains nothing. So every so many batches, if the loop waited for more than a
// twentieth of the time, the tuner makes one change, lets the batches that were under way pass, measures
// the next as many, and keeps the change if they came at least 3 % faster. Where samples differ much it measures
// for longer, until what it sees is more than chance, as the times of eight batches each tell. Twice as many workers are tried,
// or half as many, since too many get into each other's way; twice as many batches ahead where workers had
// to wait though the loop did too. When none of that helps the steps get finer, and then rarer. Order and content of
// batches do not depend on any of it.

import (
	"math"
	"runtime"
	"time"
)

const (
	prefetchBudget = 256 << 20 // bytes of batches that Prefetch 0 may amount to

	tuneWait    = 0.05                   // share of the time that a loop may wait without anything being changed
	tuneGain    = 1.03                   // by which a change must be faster
	tuneIdle    = 0.1                    // share of the workers' time that they wait for memory, from which on depth is what they lack
	tuneBatches = 16                     // that are measured at least
	tunePiece   = 8                      // batches whose time is one observation
	tunePieces  = 48                     // of those that are made at most
	tuneDoubt   = 0.1                    // standard error of a rate, as a share of it, that is good enough to compare with
	tuneTime    = 100 * time.Millisecond // likewise
	tunePause   = 64                     // windows between attempts when none has helped for long
)

// size sets the number of workers and the depth to start with, and their limits.
func (l *Loader) size() {
	cores := runtime.GOMAXPROCS(0)
	hands := l.cfg.Workers
	l.workers = hands
	if hands == 0 {
		hands = cores
		l.workers = min(max(4*cores, 32), maxWorkers)
	}
	affordable := prefetchBudget / l.layout.batchBytes(l.rows)
	depth := l.cfg.Prefetch
	l.tokens = depth + 1
	if depth == 0 {
		depth = max(2, min(2*hands, affordable))
		l.tokens = depth + 1
		if l.plan.dealt == nil { // else nobody knows what a batch takes
			l.tokens = max(depth, min(8*l.workers, affordable, maxPrefetch)) + 1
		}
	}
	l.hands.Store(int64(hands))
	l.depth.Store(int64(depth))
	l.shallowest = depth
	if l.workers > hands || l.tokens-1 > depth {
		l.tuner = &tuner{l: l, setting: setting{hands, depth}, factor: 2, long: 1}
	}
}

// setting is what the tuner changes.
type setting struct{ hands, depth int }

// move is a kind of change.
type move int

const (
	deeper move = iota
	more
	fewer
	moves
)

// tuner finds the setting. Its methods are the loop's.
type tuner struct {
	l *Loader
	setting

	skip    int // batches to let pass, before a window
	run     *run
	batches int           // in this window
	began   time.Duration // of it, in run time
	pieces  pieces
	waited  int64 // of the loop, and lacked of the workers, before it
	lacked  int64 // time in which they had no memory to read into

	best   float64 // batches a second before the change that is tried
	doubt  float64 // its standard error, as a share of it
	before setting
	trial  bool
	kind   move
	failed [moves]bool
	factor float64
	pause  int // windows to let pass
	long   int // the next pause
}

// turn counts a batch that the loop has had. t may be nil.
func (t *tuner) turn(r *run) {
	if t == nil {
		return
	}
	if t.run != r { // its first batches were waited for because there were none
		t.run, t.skip = r, max(t.skip, min(t.depth, 4*tuneBatches))
	}
	if t.skip > 0 {
		t.skip--
		t.start(r)
		return
	}
	if t.batches++; t.batches%tunePiece > 0 {
		return
	}
	took := r.looped() - t.began
	t.pieces.add(took)
	if t.batches < max(tuneBatches, min(2*t.depth, 4*tuneBatches)) || took < tuneTime || t.unsure(took) {
		return
	}
	t.judge(r, took)
	t.start(r)
}

// unsure reports whether the window is to go on, as what it has seen may be chance.
func (t *tuner) unsure(took time.Duration) bool {
	doubt := t.pieces.doubt()
	if t.pieces.n >= tunePieces {
		return false
	}
	if !t.trial {
		return doubt > tuneDoubt
	}
	ratio := float64(t.batches) / took.Seconds() / (t.best * tuneGain)
	return math.Abs(ratio-1) < math.Hypot(doubt, t.doubt)
}

// pieces are the times that so many batches each took.
type pieces struct {
	n           int
	sum, square float64
	last        time.Duration
}

// add adds the piece that ends at a time in the window.
func (p *pieces) add(at time.Duration) {
	took := (at - p.last).Seconds()
	p.n, p.sum, p.square, p.last = p.n+1, p.sum+took, p.square+took*took, at
}

// doubt is the standard error of the mean, as a share of it.
func (p *pieces) doubt() float64 {
	n := float64(p.n)
	if p.n < 2 || p.sum == 0 {
		return 0
	}
	variance := max(p.square-p.sum*p.sum/n, 0) / (n - 1)
	return math.Sqrt(variance/n) / (p.sum / n)
}

// start begins a window.
func (t *tuner) start(r *run) {
	t.batches, t.began, t.pieces = 0, r.looped(), pieces{}
	t.waited, t.lacked = t.l.waited.Load(), r.tally().lacked()
}

// judge decides what a window means.
func (t *tuner) judge(r *run, took time.Duration) {
	rate := float64(t.batches) / took.Seconds()
	waits := float64(t.l.waited.Load()-t.waited) / float64(took)
	lacks := float64(r.tally().lacked()-t.lacked) / float64(took) / float64(t.hands)
	if t.l.shallow.Load() && t.depth > t.l.shallowest {
		t.trial = false
		t.change(r, setting{t.hands, t.l.shallowest})
		return
	}
	if t.trial {
		t.trial = false
		if rate >= t.best*tuneGain {
			t.failed = [moves]bool{}
			t.long = 1
		} else {
			t.failed[t.kind] = true
			t.change(r, t.before)
			return
		}
	}
	if t.pause > 0 {
		t.pause--
		return
	}
	if waits < tuneWait {
		return
	}
	t.best, t.doubt, t.before = rate, t.pieces.doubt(), t.setting
	for t.kind = range moves {
		if next := t.after(t.kind, lacks); !t.failed[t.kind] && next != t.setting {
			t.trial = true
			t.change(r, next)
			return
		}
	}
	// Nothing helps, for now.
	t.failed = [moves]bool{}
	if t.factor > 1.25 {
		t.factor = 1.25
		return
	}
	t.pause, t.long = t.long, min(2*t.long, tunePause)
}

// after returns the setting that a move leads to.
func (t *tuner) after(kind move, lacks float64) setting {
	next := t.setting
	switch {
	case kind == deeper && lacks >= tuneIdle:
		next.depth = t.deep(2 * next.depth)
	case kind == more && t.l.cfg.Workers == 0:
		next.hands = min(max(next.hands+1, int(float64(next.hands)*t.factor)), t.l.useful())
		next.depth = t.deep(max(next.depth, 2*next.hands))
	case kind == fewer && t.l.cfg.Workers == 0:
		next.hands = max(min(next.hands-1, int(float64(next.hands)/t.factor)), 1)
	}
	return next
}

// deep returns the nearest depth to n that may be had.
func (t *tuner) deep(n int) int {
	if t.l.cfg.Prefetch > 0 || t.l.shallow.Load() {
		return t.depth // which before a change to less is not more than there is memory for
	}
	return min(n, t.l.most()-1)
}

// change makes s the setting. What is under way was begun before it.
func (t *tuner) change(r *run, s setting) {
	t.skip = min(max(t.depth, s.depth), 4*tuneBatches)
	t.setting = s
	t.l.hands.Store(int64(s.hands))
	t.l.depth.Store(int64(s.depth))
	r.setCrew(s.hands)
	r.setDepth(s.depth)
}
