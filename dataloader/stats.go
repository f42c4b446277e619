package dataloader

// What a Loader has done, and what it holds.

import (
	"math"
	"sync/atomic"
	"time"
)

// Stats are figures of a Loader since [New]. Printed they are one line that says whether training waits for data, and what
// would help. Times of workers are sums over all of them.
type Stats struct {
	Batches         int64 `json:"batches"`           // delivered
	Samples         int64 `json:"samples"`           // in them
	Bytes           int64 `json:"bytes"`             // of those samples
	Skipped         int64 `json:"skipped"`           // samples left out by SkipErrors
	Retried         int64 `json:"retried"`           // reads that failed and were tried again
	BatchReadErrors int64 `json:"batch_read_errors"` // calls of ReadBatch that failed though Read could read each of their samples

	Looped time.Duration `json:"looped_ns"` // spent in loops, body included
	Waited time.Duration `json:"waited_ns"` // of that, spent waiting for a batch

	Busy    time.Duration `json:"busy_ns"`    // workers reading
	Copying time.Duration `json:"copying_ns"` // workers issuing copies to the device, which go on by themselves
	Landing time.Duration `json:"landing_ns"` // workers waiting for an earlier copy to be complete, to use its memory again
	Idle    time.Duration `json:"idle_ns"`    // workers waiting for the loop to take a batch, while one runs

	Workers  int `json:"workers"`  // goroutines that read, at most; where Config.Workers is 0, now
	Prefetch int `json:"prefetch"` // batches read ahead, at most; where Config.Prefetch is 0, now
	Ready    int `json:"ready"`    // batches read ahead that the loop could have now

	Slots       int64 `json:"slots"`        // batches that there is memory for now, besides kept ones
	PinnedBytes int64 `json:"pinned_bytes"` // of host memory that they take

	// PinnedLimit is the most host memory that batches can take, besides kept ones and fields whose shape differs
	// between samples. It is known before the first batch. With a BatchSampler it is unknown, and 0. Both figures are
	// what is asked of the engine, whose own Stats say what it has for that.
	PinnedLimit int64 `json:"pinned_limit"`

	Stuck int `json:"stuck"` // loops with readers that did not return when their loop had ended, and have not yet
}

// counters are the parts of Stats that loops and workers count.
type counters struct {
	batches, samples, skipped, retried, batchReadErrors atomic.Int64
	looped, waited                                      atomic.Int64 // nanoseconds
	slots, pinnedBytes                                  atomic.Int64
}

// tally is what workers have spent their time on, in nanoseconds.
type tally struct{ busy, copying, landing, idle int64 }

func (t *tally) add(o tally) {
	t.busy += o.busy
	t.copying += o.copying
	t.landing += o.landing
	t.idle += o.idle
}

// lacked is the time without memory to read into: all of it was full, or still being copied.
func (t tally) lacked() int64 { return t.idle + t.landing }

// tally returns what the run's workers have spent.
func (r *run) tally() (sum tally) {
	for _, w := range r.crew {
		sum.add(tally{w.busy.Load(), w.copying.Load(), w.landing.Load(), w.idled.Load()})
	}
	return sum
}

// Stats returns the figures. It may be called at any time.
func (l *Loader) Stats() Stats {
	s := Stats{
		Batches: l.batches.Load(), Samples: l.samples.Load(), Skipped: l.skipped.Load(),
		Retried: l.retried.Load(), BatchReadErrors: l.batchReadErrors.Load(),
		Waited:  time.Duration(l.waited.Load()),
		Workers: int(l.hands.Load()), Prefetch: int(l.depth.Load()),
		Slots: l.slots.Load(), PinnedBytes: l.pinnedBytes.Load(),
		PinnedLimit: l.pinnedLimit(),
	}
	s.Bytes = s.Samples * int64(l.layout.total)
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Looped = time.Duration(l.looped.Load())
	spent := l.spent
	if l.run != nil {
		s.Looped += time.Since(l.run.entered)
	}
	for _, r := range []*run{l.run, l.standing} {
		if r != nil {
			spent.add(r.tally())
			s.Ready = r.ready()
		}
	}
	s.Busy, s.Copying = time.Duration(spent.busy), time.Duration(spent.copying)
	s.Landing, s.Idle = time.Duration(spent.landing), time.Duration(spent.idle)
	for _, r := range l.leftover {
		if !r.ended() {
			s.Stuck++
		}
	}
	return s
}

// pinnedLimit is Stats.PinnedLimit. What is more than an int64 holds is that.
func (l *Loader) pinnedLimit() int64 {
	size, ok := l.layout.blockBytes(l.rows)
	if most := int64(l.most()); ok && most <= math.MaxInt64/int64(max(size, 1)) {
		return most * int64(size)
	}
	return math.MaxInt64
}
