package dataloader

// A loop over an epoch: how it begins, and what its turns get.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Batches returns a loop over one epoch:
//
//	for batch, err := range loader.Batches(ctx) {
//		if err != nil {
//			return err
//		}
//		// batch is valid until the next turn
//	}
//
// The first loop is over epoch 0, each further one over the next epoch, also after a break; see
// [Loader.SetEpoch] and [Loader.Restore] for others. Workers start when the first loop does. When a loop has
// delivered its epoch they are reading the next one, unless [Config.SingleEpoch] is set; when it is left before, they have
// ended, but for readers that do not return though their context is done: the loop waits for
// those as [Config.Timeout] says, and Close reports them.
//
// The context that readers get has the values of that of one of the loops, and is done when that of the loop that
// runs is, and when what they read is not wanted any more.
//
// A turn has a batch or an error, never both. A [*SampleError] about a sample or batch stands in its
// place, and the loop may go on with the next. After other errors there are no more turns: the context's,
// when ctx is done; [ErrTimeout]; [ErrSkipped]; [ErrClosed]; [ErrRunning], as one Loader has one loop at a time. A panic
// in the data set, or in a sampler, is raised again as a [*PanicError]; one in BatchSampler.Len, which the loop
// calls itself before it starts, comes as it is.
func (l *Loader) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		r, err := l.start(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer l.finish(r)
		end := r.leg.end
		for place := r.leg.start; place < end; place++ {
			s, err := r.receive(ctx, place)
			if err != nil {
				yield(nil, err)
				return
			}
			if l.plan.feed != nil && s.isEnd() {
				end = l.streamEnd(r)
				r.recycle(s)
				continue
			}
			if !l.turn(r, s, yield) {
				return
			}
			l.tuner.turn(r)
		}
		if r.leg.start == r.leg.end || l.plan.feed != nil {
			l.passOver(r.leg.epoch)
		}
	}
}

// start begins a loop.
func (l *Loader) start(ctx context.Context) (*run, error) {
	if err := l.made("Batches"); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errors.New("dataloader: Batches: ctx is nil: want a context")
	}
	if ctx.Value(runKey{}) == l {
		return nil, ErrRunning // a Read that loops over its own loader would wait for itself
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	if l.run != nil || l.starting {
		l.mu.Unlock()
		return nil, ErrRunning
	}
	if n := l.setEpoch; n != nil && (*n < 0 || *n > maxEpoch) {
		l.setEpoch = nil
		l.mu.Unlock()
		return nil, fmt.Errorf("dataloader: SetEpoch(%d): want 0 to %d", *n, maxEpoch)
	}
	if ctx.Err() != nil {
		l.mu.Unlock()
		return nil, cancelled(ctx)
	}
	l.at = l.upcoming()
	l.setEpoch, l.resumed = nil, false
	at := l.at.clone()
	r, standing := l.standing, l.standing
	l.standing = nil
	if r != nil && r.proceed(at) {
		r.entered = time.Now()
		l.run = r
		l.mu.Unlock()
		r.enter(ctx)
		return r, nil
	}
	l.starting = true
	if standing != nil { // it has read something else ahead
		l.leftover = append(l.leftover, standing)
	}
	l.mu.Unlock()
	if standing != nil {
		l.retire(standing)
	}
	return l.begin(ctx, at)
}

// begin starts a run with a loop from p on.
func (l *Loader) begin(ctx context.Context, p position) (*run, error) {
	var r *run
	defer func() {
		if r == nil { // it panicked
			l.mu.Lock()
			l.starting = false
			l.at, l.resumed = p, true // for the next loop, as if there had been none
			l.mu.Unlock()
		}
	}()
	r = newRun(ctx, l, p) // without the lock: this may call a BatchSampler
	r.entered = time.Now()
	// No worker runs before Close can see the run: it waits for those that do.
	l.mu.Lock()
	l.starting = false
	closed := l.closed
	if !closed {
		l.run = r
	}
	l.mu.Unlock()
	if closed {
		r.shut()
		return nil, ErrClosed
	}
	r.enter(ctx)
	return r, nil
}

// following returns the leg after g, or nil if there is none that is worth reading ahead, or it can't be known.
func (l *Loader) following(g *leg) (next *leg) {
	defer func() { _ = recover() }() // a BatchSampler's panic is for the loop that calls it again
	l.mu.Lock()
	epoch := g.epoch + 1
	if n := l.setEpoch; n != nil {
		epoch = *n
	}
	l.mu.Unlock()
	if epoch < 0 || epoch > maxEpoch {
		return nil
	}
	next = newLeg(position{epoch: epoch}, l.plan.len(epoch), g.end)
	if next.start == next.end {
		return nil
	}
	return next
}

// turn gives the loop's body what is in the slot, and returns whether it wants more.
func (l *Loader) turn(r *run, s *slot, yield func(*Batch, error) bool) (more bool) {
	l.advance(s.number)
	r.taken++
	if s.readErrors > 0 {
		l.batchReadErrors.Add(int64(s.readErrors))
	}
	switch {
	case s.panic != nil:
		p := s.panic
		r.recycle(s)
		panic(p)
	case s.err != nil:
		err := s.err
		r.lastTurn()
		r.recycle(s)
		more = yield(nil, err)
		l.report(r, 0)
		return more
	}
	r.seen += len(s.indices) + len(s.skipped)
	if len(s.skipped) > 0 {
		l.skipped.Add(int64(len(s.skipped)))
		r.skipped += len(s.skipped)
	}
	if err := l.tooMany(r, s); err != nil {
		r.recycle(s)
		yield(nil, err)
		return false
	}
	if s.view == nil { // nothing left
		r.lastTurn()
		r.recycle(s)
		l.report(r, 0)
		return true
	}
	l.batches.Add(1)
	l.samples.Add(int64(len(s.indices)))
	r.current = r.batch(s)
	r.lastTurn() // the body may give the batch back itself
	more = yield(r.current, nil)
	samples := r.current.n
	r.current.endTurn()
	r.current = nil
	l.report(r, samples)
	return more
}

// tooMany returns an error if the loop has skipped more samples than MaxSkipped allows.
func (l *Loader) tooMany(r *run, s *slot) error {
	if l.cfg.MaxSkipped == 0 || len(s.skipped) == 0 {
		return nil
	}
	const unknown = 10_000
	of := max(r.seen, unknown)
	if l.plan.dealt == nil && l.plan.share < maxInt/l.plan.world {
		of = l.plan.share
	}
	if float64(r.skipped) <= l.cfg.MaxSkipped*float64(of) {
		return nil
	}
	return fmt.Errorf("dataloader: epoch %d: %w: %d of %d, Config.MaxSkipped = %v allows %d; the last: %w",
		s.epoch, ErrSkipped, r.skipped, r.seen, l.cfg.MaxSkipped, int(l.cfg.MaxSkipped*float64(of)), s.skipped[len(s.skipped)-1])
}
