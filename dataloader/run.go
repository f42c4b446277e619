package dataloader

// One loop over an epoch: how batches get from the workers to the loop, and how it ends.
//
// There are as many tokens as batches may be in memory at once: Prefetch, and one in the loop's hands. A
// worker takes a token from the channel free, then the next batch, then a slot: so the batch that the loop
// waits for always has one, and nothing can deadlock.
// Places are counted from the first batch of this loop. The batch at place i is delivered through
// ready[i % tokens], and since at most tokens places are on their way, those channels, of one element,
// put batches back into order and are never full.

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

type run struct {
	l     *Loader
	epoch int
	first int   // number of the batch at place 0, if not done already
	ahead []int // numbers from first on that are done: an Unordered epoch was resumed
	total int   // batches to deliver
	count int   // batches of the epoch
	began time.Time

	begun    atomic.Int64 // batches that workers have taken
	unopened atomic.Int64 // batches whose parts have not all been offered
	free     chan struct{}
	ready    []chan *slot
	tasks    chan task

	stop     chan struct{} // closed when the run is to end
	stopOnce sync.Once
	cancel   context.CancelFunc
	workers  []*worker
	live     atomic.Int64
	done     chan struct{} // closed when all workers have ended

	mu    sync.Mutex
	over  bool               // no slot may be adopted any more
	slots map[*slot]struct{} // all of the run's
	idle  []*slot            // of those, the ones that wait to be filled, in the order in which they were let go

	// Of the loop's goroutine.
	current *Batch
	block   []Batch // not used yet
	timer   *time.Timer
	entered time.Time
}

// newRun prepares an epoch from p on. launch starts its workers; cancel is to end the context that they read with.
func newRun(l *Loader, p position, cancel context.CancelFunc) *run {
	count := l.plan.len(p.epoch)
	total := max(count-p.batch-len(p.ahead), 0)
	tokens := min(l.tokens-1, total) + 1 // total may be the largest int: an order without an end
	r := &run{
		l: l, epoch: p.epoch, first: p.batch, ahead: p.ahead, total: total, count: count,
		began: time.Now(), stop: make(chan struct{}), done: make(chan struct{}),
		free: make(chan struct{}, tokens), ready: make([]chan *slot, tokens),
		slots: make(map[*slot]struct{}, tokens), cancel: cancel,
	}
	for i := range r.ready {
		switch {
		case !l.cfg.Unordered:
			r.ready[i] = make(chan *slot, 1)
		case i == 0:
			r.ready[i] = make(chan *slot, tokens)
		default:
			r.ready[i] = r.ready[0]
		}
		r.free <- struct{}{}
	}
	workers := l.workers
	if rows := l.plan.maxSize(); rows > 0 {
		workers = min(workers, min(workers, total)*((rows+r.partSize(rows)-1)/r.partSize(rows)))
	} else if total == 0 {
		workers = 0
	}
	r.tasks = make(chan task, 4*(workers+tokens))
	r.unopened.Store(int64(total))
	r.live.Store(int64(workers))
	if workers == 0 {
		close(r.done)
	}
	reader, _ := l.ds.(BatchReader)
	for range workers {
		r.workers = append(r.workers, &worker{r: r, reader: reader})
	}
	return r
}

// launch starts the workers, which read with ctx.
func (r *run) launch(ctx context.Context) {
	for _, w := range r.workers {
		go w.loop(ctx)
	}
}

// partBytes is about how much of a batch a worker fills at a time: enough that handing out parts costs
// nothing beside it.
const partBytes = 256 << 10

// partSize returns how many rows of a batch of n one worker fills at a time.
func (r *run) partSize(n int) int {
	size := max(partBytes/r.l.layout.total, 1)
	if busy := min(r.total, len(r.ready)-1); busy < r.l.workers {
		// Fewer batches at a time than workers: they fill them together.
		size = min(size, (n+r.l.workers-1)/r.l.workers)
	}
	if n < 2*size {
		return n
	}
	return size
}

// numberAt returns the number in the epoch of the batch at a place of this loop.
func (r *run) numberAt(place int) int {
	b := r.first + place
	for _, done := range r.ahead { // ascending
		if done <= b {
			b++
		}
	}
	return b
}

// slot returns a slot to fill, to who has a token, or nil if the run is over.
func (r *run) slot() *slot {
	r.mu.Lock()
	s := r.takeIdle()
	r.mu.Unlock()
	if s != nil {
		return s
	}
	s = r.l.take()
	r.mu.Lock()
	over := r.over
	if !over {
		s.mu.Lock()
		s.run, s.dead = r, false
		s.mu.Unlock()
		r.slots[s] = struct{}{}
	}
	r.mu.Unlock()
	if over {
		r.l.put(s)
		return nil
	}
	return s
}

// takeIdle takes a slot out of idle, if there is one. On the host that is the one let go last, whose memory
// is still in a cache; with a device the one let go first, whose copies have had most time.
func (r *run) takeIdle() *slot {
	n := len(r.idle)
	if n == 0 || r.over {
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

// giveAway takes a slot out of the run, that the loop holds and keeps.
func (r *run) giveAway(s *slot) {
	r.mu.Lock()
	delete(r.slots, s)
	r.mu.Unlock()
	s.count(-1)
	r.free <- struct{}{}
}

// recycle takes a slot back from the loop.
func (r *run) recycle(s *slot) error {
	alive, err := s.letGo()
	if alive {
		r.mu.Lock()
		r.idle = append(r.idle, s)
		r.mu.Unlock()
		r.free <- struct{}{}
	}
	return err
}

func (r *run) workerDone() {
	if r.live.Add(-1) == 0 {
		close(r.done)
	}
}

// shut tells everybody that the run is to end.
func (r *run) shut() {
	r.stopOnce.Do(func() {
		close(r.stop)
		r.cancel()
	})
}

// await waits for the workers of a run that was shut, and returns whether they have all ended.
func (r *run) await(timeout <-chan time.Time) bool {
	if r.ended() {
		return true
	}
	select {
	case <-r.done:
		return true
	case <-timeout:
		return false
	}
}

// ended reports whether all workers have.
func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// collect takes all slots back, but for those that a worker is still in or the loop holds: they follow
// when they are let go.
func (r *run) collect() {
	r.mu.Lock()
	r.over = true
	slots := r.slots
	r.slots, r.idle = nil, nil
	r.mu.Unlock()
	for s := range slots {
		s.kill()
	}
}

// stuck names the readers that have not returned.
func (r *run) stuck() []error {
	var errs []error
	for _, w := range r.workers {
		if b := w.batch.Load(); b != 0 {
			errs = append(errs, &SampleError{r.epoch, int(b - 1), int(w.index.Load()),
				fmt.Errorf("still being read though told to stop: %w", ErrTimeout)})
		}
	}
	return errs
}

// busy is the time that workers have spent reading.
func (r *run) busy() time.Duration {
	total := int64(0)
	for _, w := range r.workers {
		total += w.busy.Load()
	}
	return time.Duration(total)
}

// next waits for the batch at a place, at most for the timeout.
func (r *run) next(ctx context.Context, place int) (*slot, error) {
	ready := r.ready[place%len(r.ready)]
	select {
	case s := <-ready:
		return r.received(ctx, s)
	default:
	}
	began := time.Now()
	defer func() { r.l.waited.Add(int64(time.Since(began))) }()
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
		select {
		case s := <-ready:
			return r.received(ctx, s)
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

// verdict returns why the loop is to end, or nil.
func (r *run) verdict(ctx context.Context) error {
	select {
	case <-r.stop:
		return ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	return nil
}

// cancelled is the error of a context that is done, with its cause if that says more.
func cancelled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return fmt.Errorf("dataloader: %w", err)
	}
	return fmt.Errorf("dataloader: %w: %w", err, cause)
}

// overdue returns an error if a call that the batch at place waits for takes longer than the timeout, else
// how long it may still take.
func (r *run) overdue(place int) (time.Duration, error) {
	limit := r.l.cfg.Timeout
	wait, now := limit, time.Since(r.began)
	for _, w := range r.workers {
		since, b := w.since.Load(), int(w.batch.Load()-1)
		if since == 0 || b < 0 || !r.l.cfg.Unordered && b != r.numberAt(place) {
			continue
		}
		if took := now - time.Duration(since-1); took >= limit {
			return 0, &SampleError{r.epoch, b, int(w.index.Load()),
				fmt.Errorf("reading has not returned after %v (Config.Timeout is %v): %w", took.Round(time.Millisecond), limit, ErrTimeout)}
		} else {
			wait = min(wait, limit-took)
		}
	}
	return wait, nil
}

// batch makes the Batch of a slot.
func (r *run) batch(s *slot) *Batch {
	if len(r.block) == 0 {
		r.block = make([]Batch, batchBlock)
	}
	b := &r.block[0]
	r.block = r.block[1:]
	b.Epoch, b.Index, b.Indices, b.Skipped = s.epoch, s.number, s.indices[:len(s.indices):len(s.indices)], s.skipped
	b.n, b.run = len(s.indices), r
	b.slot.Store(s)
	return b
}
