package dataloader

// Loader: construction, the loop, and the end.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
)

const (
	maxInt   = math.MaxInt
	maxEpoch = maxInt / 2 // that may be asked for; epochs after it still have a number
)

// Loader reads a data set batch by batch, ahead of the loop that uses the batches. See the package's
// documentation for order, ownership and errors. Its methods are safe for concurrent use.
type Loader struct {
	ds      Dataset
	cfg     Config
	layout  *layout
	plan    *plan
	engine  *pintensor.Engine
	rows    int  // that a slot has room for at least
	workers int  // at most
	tokens  int  // batches in memory at once, at most, but for kept ones
	zero    bool // rows are zeroed before they are read

	mu       sync.Mutex
	closed   bool
	at       position
	resumed  bool   // the next loop starts at exactly at
	setEpoch *int   // by SetEpoch, for the next loop
	run      *run   // of the loop that runs
	starting bool   // a loop is about to
	standing *run   // reads ahead for the next loop
	leftover []*run // with readers that did not return when they were told to
	pool     []*slot
	owned    int           // slots, but for kept ones: in pool and in runs
	errs     []error       // met in the background
	freed    chan struct{} // closed when Close is done

	hands, depth atomic.Int64 // workers, and batches that are read ahead, now
	tuner        *tuner       // of the loop's goroutine; nil: those stay
	shallow      atomic.Bool  // there was no memory for a larger depth
	shallowest   int          // the depth to begin with

	order, data string // for States

	spent tally // by workers of runs that are over; guarded by mu
	trace *asynccopy.Trace
	counters
}

// New returns a Loader of ds. It reads nothing yet. Values in cfg that make no sense, and a data set with
// such fields, are errors that name the field, the value and what was expected.
//
// A Loader holds the memory of its batches until Close. While no loop runs over it it has no goroutines, once what it
// reads ahead of the next loop has been read.
func New(ds Dataset, cfg Config) (*Loader, error) {
	if ds == nil {
		return nil, fmt.Errorf("dataloader: New: ds is nil: want a Dataset")
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if f, ok := ds.(*funcDataset); ok && f.read == nil {
		return nil, fmt.Errorf("dataloader: FromFunc: read is nil: want a function")
	}
	layout, err := newLayout(ds.Fields())
	if err != nil {
		return nil, err
	}
	plan, err := planOf(ds, &cfg)
	if err != nil {
		return nil, err
	}
	if plan.places < 0 {
		return nil, fmt.Errorf("dataloader: Config.Sampler: Len() = %d: want >= 0", plan.places)
	}
	l := &Loader{ds: ds, cfg: cfg, layout: layout, plan: plan, engine: cfg.Pin, trace: traceOf(cfg.Stream), freed: make(chan struct{})}
	l.rows = l.plan.maxSize()
	l.order = l.describeOrder()
	if f, ok := ds.(Fingerprinter); ok {
		l.data = f.Fingerprint()
	}
	if cfg.LastBatch == PadLast && l.rows > 0 {
		l.rows = cfg.BatchSize
	}
	if l.rows > maxInt/layout.total {
		return nil, fmt.Errorf("dataloader: Config.BatchSize = %d: a batch of samples of %d bytes takes more than %d", cfg.BatchSize, layout.total, maxInt)
	}
	if l.engine == nil {
		l.engine = pintensor.Default()
	}
	l.size()
	l.zero = !overwrites(ds)
	return l, nil
}

// String says what is loaded, and how.
func (l *Loader) String() string {
	size := "batches"
	if l.plan.dealt == nil {
		size = fmt.Sprint("batches of ", l.cfg.BatchSize)
	}
	if l.plan.feed != nil {
		return fmt.Sprintf("%s of %s", size, l.order)
	}
	return fmt.Sprintf("%s of %s, %s", size, describeSet(l.ds), l.order)
}

// Len returns the number of batches of an epoch: with a [BatchSampler], of the epoch that runs, or else
// comes next. A loop has that many turns, but for batches of which SkipErrors left nothing. With a stream it is
// -1: not known.
func (l *Loader) Len() int {
	if l.plan.feed != nil {
		return -1
	}
	l.mu.Lock()
	epoch := l.upcoming().epoch
	if l.run != nil {
		epoch = l.run.leg.epoch
	}
	l.mu.Unlock()
	return l.plan.len(epoch)
}

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
			if err := r.verdict(ctx); err != nil {
				yield(nil, err)
				return
			}
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
	l.batchReadErrors.Add(int64(s.readErrors))
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
	l.skipped.Add(int64(len(s.skipped)))
	r.seen += len(s.indices) + len(s.skipped)
	r.skipped += len(s.skipped)
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
	more = yield(r.current, nil)
	r.lastTurn()
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

// finish ends a loop, however it was left. When it has consumed its leg the run stays for the next loop.
func (l *Loader) finish(r *run) {
	if r.current != nil { // the body panicked
		r.current.endTurn()
		r.current = nil
	}
	// Where the loop's context is done the readers' is too, and what they read ahead may have failed of it.
	if r.detach() && r.taken > 0 && r.consumed() && !l.cfg.SingleEpoch {
		r.rest()
		if l.stand(r) {
			return
		}
	}
	l.retire(r)
}

// stand keeps the run of a loop that is over for the next, unless the Loader is closed.
func (l *Loader) stand(r *run) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.looped.Add(int64(time.Since(r.entered)))
	r.spent += time.Since(r.entered)
	l.run, l.standing = nil, r
	return true
}

// retire ends a run, and waits for its workers as long as Timeout says.
func (l *Loader) retire(r *run) {
	r.shut()
	timer := time.NewTimer(l.cfg.grace())
	ended := r.await(timer.C)
	timer.Stop()
	r.collect()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == r {
		l.run = nil
		l.looped.Add(int64(time.Since(r.entered)))
	}
	l.spent.add(r.tally())
	l.leftover = slices.DeleteFunc(l.leftover, func(old *run) bool { return old == r || old.ended() })
	if !ended {
		l.leftover = append(l.leftover, r)
	}
}

// Close ends a loop that runs, which gets [ErrClosed], and releases the memory of batches, but for that
// in the hands of a loop's body, which follows at the end of its turn, and that of kept ones. It waits for
// workers to end, as [Config.Timeout] says, and its error names the samples that are still being read
// then. It also reports errors met when memory was given back. Further calls
// return nil, once the first is done.
func (l *Loader) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.freed
		return nil
	}
	defer close(l.freed)
	l.closed = true
	runs := l.leftover
	if l.run != nil {
		runs = append(runs, l.run)
	}
	if l.standing != nil {
		runs = append(runs, l.standing)
	}
	standing, pool := l.standing, l.pool
	l.leftover, l.standing, l.pool = nil, nil, nil
	l.mu.Unlock()

	for _, r := range runs {
		r.shut()
	}
	timer := time.NewTimer(l.cfg.grace())
	defer timer.Stop()
	var errs []error
	expired := make(chan time.Time) // a timeout that is over, for the runs after the one that used it up
	var timeout <-chan time.Time = timer.C
	for _, r := range runs {
		if !r.await(timeout) {
			errs = append(errs, r.stuck()...)
			if timeout == timer.C {
				close(expired)
				timeout = expired
			}
		}
		r.collect()
	}
	for _, s := range pool {
		errs = append(errs, s.free()...)
	}
	l.mu.Lock()
	if standing != nil {
		l.spent.add(standing.tally())
	}
	errs = append(l.errs, errs...)
	l.errs = nil
	l.mu.Unlock()
	return errors.Join(distinct(errs)...)
}

// distinct leaves errors out that read like an earlier one: a device that failed says so for each tensor.
func distinct(errs []error) []error {
	seen := make(map[string]bool)
	var kept []error
	for _, err := range errs {
		if err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			kept = append(kept, err)
		}
	}
	return kept
}

// note keeps an error met in the background for Close.
func (l *Loader) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = distinct(append(l.errs, err))
}
