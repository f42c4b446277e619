package dataloader

// How filled slots get from the workers to the loop.
//
// At most as many places as there are tokens are on their way, so that a ring of that many elements puts
// batches back into order and never overflows.

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pintensor/pin/internal/spin"
)

// delivery is what is ready for the loop.
type delivery struct {
	ring   []ringSlot  // by place; of no elements where there is no order
	asleep atomic.Bool // the loop waits for wake
	wake   chan struct{}

	queueMu sync.Mutex
	queue   []*slot      // in the order in which they got ready, where that is the order
	queued  atomic.Int64 // slots in queue
}

// ringSlot is where a slot lies that is ready.
type ringSlot struct {
	slot atomic.Pointer[slot]
	_    line
}

func (d *delivery) init(tokens int, unordered bool) {
	d.wake = make(chan struct{}, 1)
	if !unordered {
		d.ring = make([]ringSlot, tokens)
	}
}

// deliver hands a slot over to the loop. place is the slot's, which may be another run's already.
func (d *delivery) deliver(s *slot, place int) {
	if d.ring != nil {
		d.ring[place%len(d.ring)].slot.Store(s)
	} else {
		d.queueMu.Lock()
		d.queue = append(d.queue, s)
		d.queued.Add(1)
		d.queueMu.Unlock()
	}
	if d.asleep.Load() {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// poll returns the slot at a place, or, where there is no order, one that is before end; nil if it is not there.
func (d *delivery) poll(place, end int) *slot {
	if d.ring != nil {
		at := &d.ring[place%len(d.ring)].slot
		if at.Load() == nil {
			return nil
		}
		return at.Swap(nil)
	}
	if d.queued.Load() == 0 {
		return nil
	}
	d.queueMu.Lock()
	defer d.queueMu.Unlock()
	for i, s := range d.queue {
		if s.place < end { // else it is the next loop's
			d.queue = slices.Delete(d.queue, i, i+1)
			d.queued.Add(-1)
			return s
		}
	}
	return nil
}

// ready is how many slots are.
func (d *delivery) ready() (n int) {
	for i := range d.ring {
		if d.ring[i].slot.Load() != nil {
			n++
		}
	}
	return n + int(d.queued.Load())
}

// receive waits until the batch at a place is there, the run ends or ctx is done, or a call of Read that the batch needs has taken
// longer than Config.Timeout.
func (r *run) receive(ctx context.Context, place int) (*slot, error) {
	if s := r.poll(place, r.leg.end); s != nil {
		return r.received(ctx, s)
	}
	began := time.Since(r.began) // cheaper than time.Now
	defer func() {
		took := time.Since(r.began) - began
		r.averageWait += (min(took, 2*maxSpinWait) - r.averageWait) / 8 // bounded: the loop is not to sleep after one slow sample
		r.l.waited.Add(int64(took))
	}()
	if r.l.spanned() {
		defer r.l.span(ctx, spanWait)()
	}
	var s *slot
	rounds, yield := r.spinBudget()
	if r.spinners > 0 && spin.Until(rounds, yield, func() bool { s = r.poll(place, r.leg.end); return s != nil }) {
		return r.received(ctx, s)
	}
	return r.wait(ctx, place)
}

// maxSpinWait is how long a wait usually takes, at most, for the loop not to sleep through it. Waking it takes a worker some
// 10 µs: of a batch of 40 µs that is a fifth, of 400 µs a fortieth (BenchmarkBesideGather).
const maxSpinWait = 500 * time.Microsecond

// spinBudget is for how many rounds the loop is to spin before it sleeps, and how often it is to let others run meanwhile.
// Where workers could use its core the rounds are few. Where there is a core to spare it looks almost all the time:
// the sooner it gives a batch back, the more of that is still in the cache of the worker that fills it next.
func (r *run) spinBudget() (rounds, yield int) {
	if r.averageWait < maxSpinWait && int(r.l.hands.Load()) < r.cores {
		return longSpin, shortSpin
	}
	return shortSpin, 1
}

func (r *run) wait(ctx context.Context, place int) (*slot, error) {
	r.asleep.Store(true)
	defer r.asleep.Store(false)
	var overdue <-chan time.Time
	if limit := r.l.cfg.Timeout; limit > 0 {
		if r.timer == nil {
			r.timer = time.NewTimer(limit)
		} else {
			r.timer.Reset(limit)
		}
		defer r.timer.Stop()
		overdue = r.timer.C
	}
	for {
		// Only now that deliver knows of the wait can nothing be missed.
		if s := r.poll(place, r.leg.end); s != nil {
			return r.received(ctx, s)
		}
		select {
		case <-r.wake:
		case <-r.stop:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, cancelled(ctx)
		case <-overdue:
			wait, err := r.overdue(place)
			if err != nil {
				return nil, err
			}
			r.timer.Reset(wait)
		}
	}
}

// received takes the slot, unless the run has ended meanwhile: then what is in the slot may be a
// consequence of that.
func (r *run) received(ctx context.Context, s *slot) (*slot, error) {
	held := s.hold(r)
	err := r.verdict(ctx)
	if err == nil && held {
		return s, nil
	}
	if held {
		r.recycle(s)
	}
	if err == nil {
		err = ErrClosed
	}
	return nil, err
}

// overdue returns an error if a call that the batch at place waits for takes longer than the timeout, else
// how long it may still take.
func (r *run) overdue(place int) (time.Duration, error) {
	limit := r.l.cfg.Timeout
	wait, now := limit, time.Since(r.began)
	for _, w := range r.crew {
		since := w.since.Load()
		d, reads := w.doing()
		if since == 0 || !reads || d.place != place && (r.ring != nil || d.place >= r.leg.end) {
			continue
		}
		took := now - time.Duration(since-1)
		if took >= limit {
			return 0, &SampleError{d.epoch, d.batch, d.index,
				fmt.Errorf("worker %d has been reading for %v (Config.Timeout is %v): %w", w.number, took.Round(time.Millisecond), limit, ErrTimeout)}
		}
		wait = min(wait, limit-took)
	}
	return wait, nil
}
