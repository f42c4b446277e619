package dataloader

// Workers: the goroutines that fill slots.

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// worker is one goroutine of a run. Its atomics say what it is doing, for those who wait for it.
type worker struct {
	r      *run
	reader BatchReader // nil: the data set has none
	row    int         // of the slot, being read
	order  []int       // the samples of the batch that is begun, where they are known before it has a slot
	known  lookedUp
	warm   warm
	number int
	live   bool // guarded by the run's lock

	_     line // the rest is written for each sample
	leg   atomic.Pointer[leg]
	place atomic.Int64 // of the batch, + 1; 0 while idle
	index atomic.Int64 // the sample, or -1
	since atomic.Int64 // start of the call in run time + 1; 0 outside of calls or where there is no timeout

	busy, copying, landing, idled atomic.Int64 // nanoseconds, see tally
	_                             line
}

// doing is what a worker reads.
type doing struct{ epoch, batch, place, index int }

// doing returns what w reads, and false if it doesn't.
func (w *worker) doing() (doing, bool) {
	place, g := int(w.place.Load())-1, w.leg.Load()
	if place < 0 || place < g.start || place >= g.end { // or it is just changing
		return doing{}, false
	}
	return doing{g.epoch, g.numberAt(place), place, int(w.index.Load())}, true
}

var errGoexit = errors.New("runtime.Goexit was called in a worker")

// loop works until there is nothing left to do for w.
func (w *worker) loop(ctx context.Context) {
	ended := false
	defer func() {
		if !ended {
			go w.loop(ctx) // user code called runtime.Goexit; its batch has been told
		}
	}()
	for {
		t, ok := w.r.pick(w)
		switch {
		case !ok:
			ended = true
			return
		case t.expand:
			w.r.expand()
		case t.leg != nil:
			w.begin(ctx, t)
		case t.s.enter(t.turn):
			w.fill(ctx, t)
		}
	}
}

// begin fills the first part of a batch, and offers the others.
func (w *worker) begin(ctx context.Context, t task) {
	r, s := w.r, t.s
	w.order = nil
	if t.alone && r.l.ownOrder {
		w.order = w.known.batch(r.l.plan, t.leg, t.leg.numberAt(t.place))
	}
	switch {
	case s == nil:
		s = r.adopt(true)
	case w.order != nil && r.l.keepsWarm:
		s = w.warmer(s)
	}
	bare := t.s == nil
	if s == nil || !s.open(r, t.leg, t.place) { // the run is over
		if bare {
			r.furnished()
		}
		return
	}
	w.row, w.warm.last = 0, s
	// Deferred, so that a batch whose preparing panics is delivered all the same, as a failed one.
	defer w.share(ctx, s, t)
	ok := false
	defer w.capture(&ok, s)
	if err := w.furnish(ctx, s, bare); err != nil {
		s.fault(w.batchFault(s, 0, err))
		s.indices = s.indices[:0]
	}
	ok = true
}

// furnish prepares a slot, which may be one without memory that somebody waits for, see grown.
func (w *worker) furnish(ctx context.Context, s *slot, bare bool) error {
	if bare {
		defer w.r.furnished()
	}
	return w.prepare(ctx, s)
}

// prepare makes room for the batch and, where a BatchSampler decides, finds its samples.
func (w *worker) prepare(ctx context.Context, s *slot) error {
	r := w.r
	w.at(s, -1)
	p := r.l.plan
	switch {
	case p.feed != nil:
		err := p.feed.batch(ctx, r, s, w.start)
		set(&w.since, 0)
		if err != nil {
			return err
		}
	case p.dealt != nil:
		s.indices = p.batch(s.epoch, s.number, s.indices)
	default:
		n := p.size(s.number)
		s.indices = slices.Grow(s.indices, n)[:n]
		s.ordered = copy(s.indices, w.order) > 0
	}
	s.fitRands()
	s.dropMeta() // of a batch that was not delivered
	if len(s.copies) > 0 {
		began := time.Since(r.began)
		err := s.settle(ctx)
		w.landing.Add(int64(time.Since(r.began) - began))
		if err != nil {
			return err
		}
	}
	return s.reserve(len(s.indices))
}

// share offers parts of the slot to the other workers and fills the first itself.
func (w *worker) share(ctx context.Context, s *slot, t task) {
	n := len(s.indices)
	if len(s.faults) > 0 {
		n = 0
	}
	first := task{s: s, turn: s.turn, hi: n}
	if size := w.r.l.partSize(n, t.sharers); size < n && !t.alone {
		first.hi = size
		s.pending, s.shared = (n+size-1)/size, true // nobody else knows of the slot yet
		w.r.share(task{s: s, turn: s.turn, lo: size, hi: n, size: size}, s.pending-1)
	}
	w.fill(ctx, first)
}

// fill reads the samples of t, and delivers the slot if it was the last part.
func (w *worker) fill(ctx context.Context, t task) {
	defer w.finish(ctx, t.s)
	ok := false
	defer w.capture(&ok, t.s)
	if w.r.l.spanned() {
		defer w.r.l.span(ctx, spanRead)()
	}
	began := time.Since(w.r.began) // cheaper than time.Now
	w.read(ctx, t)
	w.busy.Add(int64(time.Since(w.r.began) - began))
	ok = true
}

// finish ends a part, and with the last one delivers the slot.
func (w *worker) finish(ctx context.Context, s *slot) {
	defer w.idle()
	set(&w.since, 0)
	if !s.filled() {
		return
	}
	w.complete(ctx, s)
	if s.view != nil && w.r.l.cfg.Stream != nil {
		w.send(ctx, s)
		return
	}
	w.handOver(s)
}

// handOver gives a batch to the loop.
func (w *worker) handOver(s *slot) {
	place := s.place // once the worker has left, the slot may be another run's
	if s.leave() {
		w.r.deliver(s, place)
	}
}

// complete makes a batch of a slot whose parts are all filled.
func (w *worker) complete(ctx context.Context, s *slot) {
	ok := false
	defer func() {
		if !ok {
			s.resolve()
		}
	}()
	defer w.capture(&ok, s)
	w.row = 0
	w.at(s, -1)
	s.items = nil // a kept batch must not hold them
	if s.resolve() {
		if err := s.publish(); err != nil {
			s.err = s.asSampleError(err)
		}
	}
	ok = true
}

// capture turns a panic, or a Goexit, of the calling function into a fault of the slots. It is for defer.
func (w *worker) capture(ok *bool, slots ...*slot) {
	if *ok {
		return
	}
	value := recover()
	if value == nil {
		value = errGoexit
	}
	for _, s := range slots {
		s.fault(fault{row: w.row, panic: &PanicError{s.epoch, s.number, int(w.index.Load()), value, debug.Stack()}})
	}
}

// at notes what the worker is about to do. To store what is there already would cost as much as all else here.
func (w *worker) at(s *slot, index int) {
	set(&w.index, int64(index))
	if w.leg.Load() != s.leg {
		w.leg.Store(s.leg)
	}
	set(&w.place, int64(s.place)+1)
}

func (w *worker) idle() {
	set(&w.since, 0)
	set(&w.place, 0)
}

// set stores v, of which the worker is the only writer.
func set(v *atomic.Int64, to int64) {
	if v.Load() != to {
		v.Store(to)
	}
}

// start begins a call that the timeout is about.
func (w *worker) start() {
	if w.r.l.cfg.Timeout > 0 {
		w.since.Store(int64(time.Since(w.r.began)) + 1)
	}
}

func (w *worker) batchFault(s *slot, row int, err error) fault {
	return fault{row: row, err: &SampleError{s.epoch, s.number, -1, err}}
}

func (w *worker) sampleFault(s *slot, row int, err error) fault {
	return fault{row: row, err: &SampleError{s.epoch, s.number, s.indices[row], err}, skip: true}
}

// read fills the rows of t.
func (w *worker) read(ctx context.Context, t task) {
	s, p := t.s, w.r.l.plan
	w.row = t.lo
	w.at(s, -1)
	indices := s.indices[t.lo:t.hi:t.hi]
	if p.dealt == nil && len(indices) > 0 && !s.ordered {
		p.fill(s.epoch, s.number, t.lo, indices)
	}
	for k, i := range indices {
		if uint(i) >= uint(p.samples) {
			s.fault(w.batchFault(s, t.lo+k, p.outside(i)))
			return
		}
	}
	if w.reader != nil && len(indices) > 0 {
		w.readBatch(ctx, t, indices)
		return
	}
	w.readEach(ctx, t)
}

// readBatch reads all rows of t in one call, or, if that fails, one by one.
func (w *worker) readBatch(ctx context.Context, t task, indices []int) {
	s := t.s
	if len(indices) == 1 {
		w.index.Store(int64(indices[0]))
	}
	err := w.callBatch(ctx, t, indices)
	if err == nil {
		return
	}
	err = w.again(ctx, s, indices[0], err, func() error { return w.callBatch(ctx, t, indices) })
	if err == nil {
		return
	}
	if ctx.Err() != nil || blameless(err) {
		s.fault(w.batchFault(s, t.lo, err))
		return
	}
	// Though ReadBatch was called as often as Retries says: each time another sample may have failed, and the rest were not
	// even asked for.
	var passes *RetryError
	if w.readEach(ctx, t) == 0 && !errors.As(err, &passes) {
		// Every sample can be read by itself: the batch is whole, but something is wrong with ReadBatch.
		s.mu.Lock()
		s.readErrors++
		s.mu.Unlock()
		if w.r.l.cfg.OnError == StopOnError {
			s.fault(w.batchFault(s, t.lo, fmt.Errorf("ReadBatch of %d samples, each of which Read can read: %w", len(indices), err)))
		}
	}
}

// callBatch calls ReadBatch for the rows of t.
func (w *worker) callBatch(ctx context.Context, t task, indices []int) (err error) {
	l, rows := w.r.l, Rows{&t.s.buffer, t.lo, len(indices)}
	if left := l.proof.of(true); left != nil {
		err = prove(left, rows, func() error { w.start(); return w.reader.ReadBatch(ctx, indices, rows) })
	} else {
		if l.zero {
			t.s.zero(t.lo, t.hi)
		}
		w.start()
		err = w.reader.ReadBatch(ctx, indices, rows)
	}
	if err != nil {
		for k := t.lo; k < t.hi; k++ { // they will be read again
			t.s.forgetRand(k)
			t.s.forgetMeta(k)
		}
	}
	return err
}

// readEach reads the rows of t one by one, and returns how many failed.
func (w *worker) readEach(ctx context.Context, t task) (failed int) {
	s := t.s
	for k := t.lo; k < t.hi; k++ {
		if err := ctx.Err(); err != nil {
			s.fault(w.batchFault(s, k, err))
			return failed + 1
		}
		w.row = k
		w.index.Store(int64(s.indices[k]))
		err := w.call(ctx, s, k)
		if err != nil {
			err = w.again(ctx, s, s.indices[k], err, func() error { return w.call(ctx, s, k) })
		}
		if err == nil {
			continue
		}
		failed++
		f := w.sampleFault(s, k, err)
		f.skip = !blameless(err)
		s.fault(f)
		if w.r.l.cfg.OnError == StopOnError {
			return failed
		}
	}
	return failed
}

// call calls Read for row k.
func (w *worker) call(ctx context.Context, s *slot, k int) (err error) {
	l, row := w.r.l, Row{&s.buffer, k}
	if left := l.proof.of(false); left != nil {
		err = prove(left, Rows{row.b, k, 1}, func() error { w.start(); return l.ds.Read(ctx, s.indices[k], row) })
	} else {
		if l.zero {
			s.zero(k, k+1)
		}
		w.start()
		err = l.ds.Read(ctx, s.indices[k], row)
	}
	if err != nil {
		s.forgetRand(k)
		s.forgetMeta(k)
	}
	return err
}
