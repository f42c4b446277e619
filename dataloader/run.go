package dataloader

// A run: workers, the slots they fill, and one loop after another over what they have filled.
//
// A run begins with a loop over an epoch, its first leg. When its workers have begun all batches of the leg
// they go on with those of the next epoch, so that they are there when its loop begins: see schedule.go.
// A loop that has consumed its whole leg leaves the run standing. The workers then end as soon as they have
// read ahead as far as they may, so that a Loader that nobody loops over has no goroutines. The next loop
// takes the run up and starts workers again, if it is one over the epoch that was read ahead; if not, or if a
// loop was left before its leg was over, the run is shut and what it has read ahead is dropped.

import (
	"context"
	"fmt"
	"time"
)

// run keeps what changes with each batch off the lines of memory of what does not, and what only one side writes off
// those of the other: a line that goes from core to core costs as much as all else that a small batch does.
type run struct {
	l     *Loader
	began time.Time

	stop   chan struct{}           // closed when the run is to end
	cancel context.CancelCauseFunc // of the context that workers read with: of the run, not of a loop
	launch func(*worker)
	done   chan struct{} // closed when the run was shut and all workers have ended

	slots map[*slot]struct{} // all of the run's. Guarded by board.mu, as is:
	over  bool               // no slot may be adopted any more

	_ line
	board
	_ line
	delivery
	_ line
	sender
	_ line

	// Of the loop's goroutine.
	current     *Batch
	taken       int     // places of the leg that the loop has consumed
	seen        int     // samples of them, those included that were
	skipped     int     // left out
	block       []Batch // not used yet
	timer       *time.Timer
	averageWait time.Duration // of a wait for a batch, lately
	entered     time.Time
	spent       time.Duration // in loops before this one
	detach      func() bool   // takes the run away from the loop's context, and returns whether it was not done

	streaming streaming
}

// line is as much memory as cores get at a time, and its neighbour that they fetch with it.
type line [128]byte

// runKey is the key under which the context of a run's readers has the Loader.
type runKey struct{}

// newRun prepares a run whose first leg is the epoch from p on. ctx is the first loop's. Readers get its values,
// but their context ends only when the run does.
func newRun(ctx context.Context, l *Loader, p position) *run {
	g := newLeg(p, l.plan.len(p.epoch), 0)
	r := &run{l: l, began: time.Now(), stop: make(chan struct{}), done: make(chan struct{}), slots: make(map[*slot]struct{})}
	ctx, r.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), runKey{}, l))
	r.launch = func(w *worker) { go w.loop(ctx) }
	r.delivery.init(l.most(), l.cfg.Unordered)
	reader := batchReaderOf(l.ds)
	for i := range l.useful() {
		r.crew = append(r.crew, &worker{r: r, reader: reader, number: i})
	}
	depth := int(l.depth.Load())
	if l.shallow.Load() {
		depth = l.shallowest
	}
	r.board.init(g, min(depth+1, l.most()), min(int(l.hands.Load()), len(r.crew)))
	return r
}

// useful returns how many workers can have something to do at the same time.
func (l *Loader) useful() int {
	rows := l.plan.maxSize()
	switch {
	case l.plan.dealt != nil:
		return l.workers
	case rows == 0:
		return 0
	}
	parts := 1
	if size := l.partSize(rows, l.workers); size > 0 {
		parts = (rows + size - 1) / size
	}
	return min(l.workers, min(l.workers, l.plan.batches)*parts)
}

// enter begins a loop over the leg that is the run's: it starts workers, and ctx ends them.
func (r *run) enter(ctx context.Context) {
	r.taken, r.seen, r.skipped = 0, 0, 0
	r.detach = context.AfterFunc(ctx, func() { r.cancel(context.Cause(ctx)) })
	for _, w := range r.muster() {
		r.launch(w)
	}
}

// partBytes is about how much of a batch a worker fills at a time: enough that handing out parts costs
// nothing beside it.
const partBytes = 256 << 10

// partSize returns how many rows of a batch of n one worker fills at a time, when so many are to share it.
func (l *Loader) partSize(n, sharers int) int {
	size := max(partBytes/l.layout.total, 1)
	if sharers > 0 {
		size = min(size, (n+sharers-1)/sharers)
	}
	if n < 2*size {
		return n
	}
	return size
}

// adopt returns a slot for the run, of the Loader's or a new one, or nil if the run is over. coming says that take has counted on it.
func (r *run) adopt(coming bool) *slot {
	s := r.l.take()
	r.mu.Lock()
	if coming {
		r.coming--
	}
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

// giveAway takes a slot out of the run, that the loop holds and keeps.
func (r *run) giveAway(s *slot) {
	r.mu.Lock()
	delete(r.slots, s)
	r.mu.Unlock()
	r.l.disown(s)
	r.returnKept()
}

// recycle takes a slot back from the loop.
func (r *run) recycle(s *slot) error { return r.release(s, true) }

// shut tells everybody that the run is to end.
func (r *run) shut() {
	if r.close() {
		close(r.stop)
		r.cancel(nil)
	}
}

// await waits for the workers of a run that was shut, and returns whether they have all ended.
func (r *run) await(timeout <-chan time.Time) bool {
	if r.ended() {
		return true
	}
	select {
	case <-r.done:
		return r.streaming.readers.await(timeout)
	case <-timeout:
		return false
	}
}

// ended reports whether the run was shut and all workers have ended, and the readers of a stream's shards.
func (r *run) ended() bool {
	select {
	case <-r.done:
		return len(r.streaming.readers.running()) == 0
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
	for _, w := range r.crew {
		if d, reads := w.doing(); reads {
			errs = append(errs, &SampleError{d.epoch, d.batch, d.index,
				fmt.Errorf("worker %d is still reading though told to stop: %w", w.number, ErrTimeout)})
		}
	}
	for _, shard := range r.streaming.readers.running() {
		errs = append(errs, fmt.Errorf("dataloader: epoch %d: shard %d of the stream is still being read though told to stop: %w", r.leg.epoch, shard, ErrTimeout))
	}
	return errs
}

// consumed reports whether the loop has had all of its leg.
func (r *run) consumed() bool { return r.taken == r.leg.end-r.leg.start }

// lastTurn is called before a turn can give its batch back. After the last the token for the loop's hands is not for
// reading ahead.
func (r *run) lastTurn() {
	if r.consumed() {
		r.resting.Store(true)
	}
}

// looped is the time that loops over the run have taken.
func (r *run) looped() time.Duration { return r.spent + time.Since(r.entered) }

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

// batch makes the Batch of a slot.
func (r *run) batch(s *slot) *Batch {
	if len(r.block) == 0 {
		r.block = make([]Batch, batchBlock)
	}
	b := &r.block[0]
	r.block = r.block[1:]
	b.Epoch, b.Index, b.Indices, b.Skipped = s.epoch, s.number, s.indices[:len(s.indices):len(s.indices)], s.skipped
	b.Meta = s.takeMeta(len(s.indices))
	b.n, b.run = len(s.indices), r
	b.slot.Store(s)
	return b
}
