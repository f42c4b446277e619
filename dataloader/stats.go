package dataloader

// What a Loader has done, and what it holds.

import (
	"sync/atomic"
	"time"
)

// Stats are figures of a Loader since [New].
type Stats struct {
	Batches         int64 // delivered
	Samples         int64 // in them
	Skipped         int64 // samples left out by SkipErrors
	BatchReadErrors int64 // calls of ReadBatch that failed though Read could read each of their samples

	Looped time.Duration // spent in loops, body included
	Waited time.Duration // of that, spent waiting for a batch: Waited/Looped is the share that data costs
	Busy   time.Duration // spent reading, by all workers together

	Workers  int // goroutines that read, at most
	Prefetch int // batches read ahead, at most

	Slots       int64 // batches that there is memory for now, besides kept ones
	PinnedBytes int64 // of host memory that they take

	// PinnedLimit is the most host memory that batches can take, besides kept ones, before rounding by
	// the engine. With a BatchSampler it is unknown, and 0.
	PinnedLimit int64

	Stuck int // loops with readers that did not return when their loop had ended, and have not yet
}

// counters are the parts of Stats that loops and workers count.
type counters struct {
	batches, samples, skipped, batchReadErrors atomic.Int64
	looped, waited, busy                       atomic.Int64 // nanoseconds
	slots, pinnedBytes                         atomic.Int64
}

// Stats returns the figures. It may be called at any time.
func (l *Loader) Stats() Stats {
	s := Stats{
		Batches: l.batches.Load(), Samples: l.samples.Load(), Skipped: l.skipped.Load(), BatchReadErrors: l.batchReadErrors.Load(),
		Waited:  time.Duration(l.waited.Load()),
		Workers: int(l.hands.Load()), Prefetch: int(l.depth.Load()),
		Slots: l.slots.Load(), PinnedBytes: l.pinnedBytes.Load(),
		PinnedLimit: int64(l.most()) * int64(l.rows) * int64(l.layout.total),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Looped, s.Busy = time.Duration(l.looped.Load()), time.Duration(l.busy.Load())
	if l.run != nil {
		s.Looped += time.Since(l.run.entered)
		s.Busy += l.run.busy()
	}
	if l.standing != nil {
		s.Busy += l.standing.busy()
	}
	for _, r := range l.leftover {
		if !r.ended() {
			s.Stuck++
		}
	}
	return s
}
