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

	_     [64]byte     // the rest is written for each sample; keep it off the lines of other workers
	batch atomic.Int64 // number + 1; 0 while idle
	index atomic.Int64 // the sample, or -1
	since atomic.Int64 // start of the call in run time + 1; 0 outside of calls or where there is no timeout
	busy  atomic.Int64 // nanoseconds spent filling
	_     [64]byte
}

// task is a part of a slot to fill: rows from lo to hi-1.
type task struct {
	s      *slot
	turn   uint64
	lo, hi int
}

var errGoexit = errors.New("runtime.Goexit was called in a worker")

// loop works until the run is over or there is nothing left to start.
func (w *worker) loop(ctx context.Context) {
	ended := false
	defer func() {
		if ended {
			w.r.workerDone()
			return
		}
		go w.loop(ctx) // user code called runtime.Goexit; its batch has been told
	}()
	for w.step(ctx) {
	}
	ended = true
}

// step does one piece of work. Parts of batches that are begun come first, being needed first.
func (w *worker) step(ctx context.Context) (more bool) {
	r := w.r
	select {
	case t, ok := <-r.tasks:
		return ok && w.part(ctx, t)
	default:
	}
	select {
	case <-r.stop:
		return false
	case t, ok := <-r.tasks:
		return ok && w.part(ctx, t)
	case <-r.free:
		return w.begin(ctx)
	}
}

// part fills a part of a batch that another worker began.
func (w *worker) part(ctx context.Context, t task) (more bool) {
	if !t.s.enter(t.turn) {
		return false
	}
	w.fill(ctx, t)
	return true
}

// begin takes the next batch with a token, and fills its first part.
func (w *worker) begin(ctx context.Context) (more bool) {
	r := w.r
	place := int(r.begun.Add(1)) - 1
	if place >= r.total {
		return true // all are taken, but parts of them may still come; then tasks is closed
	}
	s := r.slot()
	if s == nil || !s.open(r, place, r.numberAt(place)) {
		return false
	}
	w.row = 0
	// Deferred, so that a batch whose preparing panics is delivered all the same, as a failed one.
	defer w.share(ctx, s)
	ok := false
	defer w.capture(s, &ok)
	if err := w.prepare(ctx, s); err != nil {
		s.fault(w.batchFault(s, 0, err))
		s.indices = s.indices[:0]
	}
	ok = true
	return true
}

// prepare makes room for the batch and, where a BatchSampler decides, finds its samples.
func (w *worker) prepare(ctx context.Context, s *slot) error {
	r := w.r
	w.at(s, -1)
	defer w.idle()
	p := r.l.plan
	if p.dealt != nil {
		s.indices = p.batch(r.epoch, s.number, s.indices)
	} else {
		n := p.size(s.number)
		s.indices = slices.Grow(s.indices, n)[:n]
	}
	s.fitRands()
	if err := s.settle(ctx); err != nil {
		return err
	}
	return s.reserve(len(s.indices))
}

// share offers parts of the slot to the other workers and fills the first itself.
func (w *worker) share(ctx context.Context, s *slot) {
	r := w.r
	n, size := len(s.indices), 1
	if len(s.faults) > 0 {
		n = 0
	}
	if n > 0 {
		size = r.partSize(n)
		s.pending = (n + size - 1) / size // nobody else knows of the slot yet
	}
	for lo := size; lo < n; lo += size {
		t := task{s, s.turn, lo, min(lo+size, n)}
		select {
		case r.tasks <- t:
		default: // the others have enough to do
			w.part(ctx, t)
		}
	}
	if r.unopened.Add(-1) == 0 {
		close(r.tasks) // no batch is left that could be shared
	}
	w.fill(ctx, task{s, s.turn, 0, min(size, n)})
}

// fill reads the samples of t, and delivers the slot if it was the last part.
func (w *worker) fill(ctx context.Context, t task) {
	defer w.finish(t.s)
	ok := false
	defer w.capture(t.s, &ok)
	began := time.Now()
	w.read(ctx, t)
	w.busy.Add(int64(time.Since(began)))
	ok = true
}

// finish ends a part, and with the last one delivers the slot.
func (w *worker) finish(s *slot) {
	defer w.idle()
	w.since.Store(0)
	if !s.filled() {
		return
	}
	w.complete(s)
	place := s.place // once the worker has left, the slot may be another run's
	if s.leave() {
		w.r.ready[place%len(w.r.ready)] <- s
	}
}

// complete makes a batch of a slot whose parts are all filled.
func (w *worker) complete(s *slot) {
	ok := false
	defer func() {
		if !ok {
			s.resolve()
		}
	}()
	defer w.capture(s, &ok)
	w.row = 0
	w.at(s, -1)
	if s.resolve() {
		if err := s.publish(); err != nil {
			s.err = &SampleError{s.epoch, s.number, -1, err}
		}
	}
	ok = true
}

// capture turns a panic, or a Goexit, of the calling function into a fault of the slot. It is for defer.
func (w *worker) capture(s *slot, ok *bool) {
	if *ok {
		return
	}
	value := recover()
	if value == nil {
		value = errGoexit
	}
	s.fault(fault{row: w.row, panic: &PanicError{s.epoch, s.number, int(w.index.Load()), value, debug.Stack()}})
}

// at notes what the worker is about to do.
func (w *worker) at(s *slot, index int) {
	w.index.Store(int64(index))
	w.batch.Store(int64(s.number) + 1)
}

func (w *worker) idle() {
	w.since.Store(0)
	w.batch.Store(0)
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
	if p.dealt == nil && len(indices) > 0 {
		p.fill(s.epoch, s.number, t.lo, indices)
	}
	for k, i := range indices {
		if err := p.check(i); err != nil {
			s.fault(w.batchFault(s, t.lo+k, err))
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
	if w.r.l.zero {
		s.zero(t.lo, t.hi)
	}
	w.start()
	err := w.reader.ReadBatch(ctx, indices, Rows{&s.buffer, t.lo, len(indices)})
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		s.fault(w.batchFault(s, t.lo, err))
		return
	}
	for k := t.lo; k < t.hi; k++ {
		s.forgetRand(k)
	}
	if w.readEach(ctx, t) == 0 {
		// Every sample can be read by itself: the batch is whole, but something is wrong with ReadBatch.
		w.r.l.batchReadErrors.Add(1)
		if w.r.l.cfg.OnError == StopOnError {
			s.fault(w.batchFault(s, t.lo, fmt.Errorf("ReadBatch of %d samples, each of which Read can read: %w", len(indices), err)))
		}
	}
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
		s.zero(k, k+1)
		w.start()
		err := w.r.l.ds.Read(ctx, s.indices[k], Row{&s.buffer, k})
		if err == nil {
			continue
		}
		failed++
		s.fault(w.sampleFault(s, k, err))
		if w.r.l.cfg.OnError == StopOnError {
			return failed
		}
	}
	return failed
}
