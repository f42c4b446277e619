package dataloader

// How batches of a stream get to the workers.
//
// Batches are taken off the stream one after the other, by whichever worker is to fill the next one; the others
// wait for their turn. So the stream is read in one order, and no goroutine is needed for that: only the
// shards have some, to read ahead and at the same time.

import (
	"context"
	"sync"
)

type streamFeed[T any] struct {
	src *Source[T]
	cfg Config
}

// streaming is a run's part of a stream.
type streaming struct {
	once    sync.Once
	epoch   any     // *streamEpoch[T]
	readers readers // of shards
}

// streamEpoch is the stream during one loop.
type streamEpoch[T any] struct {
	items puller[T]

	mu    sync.Mutex
	turn  sync.Cond // place has changed, or the context is done
	place int       // whose turn it is
	next  int       // number of the batch that comes next off the stream
	over  bool      // the stream has ended
}

// of returns the stream of a run, which its first batch opens.
func (f *streamFeed[T]) of(ctx context.Context, r *run, s *slot) *streamEpoch[T] {
	r.streaming.once.Do(func() {
		e := &streamEpoch[T]{place: s.leg.start, items: f.open(ctx, &r.streaming.readers, s.epoch)}
		e.turn.L = &e.mu
		context.AfterFunc(ctx, func() {
			e.mu.Lock() // or a worker might be between its look at the context and its wait
			defer e.mu.Unlock()
			e.turn.Broadcast()
		})
		r.streaming.epoch = e
	})
	return r.streaming.epoch.(*streamEpoch[T])
}

func (f *streamFeed[T]) batch(ctx context.Context, r *run, s *slot, began func()) error {
	e := f.of(ctx, r, s)
	if err := e.await(ctx, s.place); err != nil {
		return err
	}
	defer e.pass()
	began()
	items, p, err := f.take(ctx, e, s.number)
	switch {
	case err != nil:
		return err
	case p != nil:
		s.fault(fault{panic: &PanicError{s.epoch, s.number, -1, p.Value, p.Stack}})
		return nil
	}
	s.items = items
	for i := range items {
		s.indices = append(s.indices, items[i].index)
	}
	return nil
}

// await waits for a place's turn. After the stream's end only one more place has one, to tell the loop.
func (e *streamEpoch[T]) await(ctx context.Context, place int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for ctx.Err() == nil && (e.place != place || e.over) {
		e.turn.Wait()
	}
	return ctx.Err()
}

// pass ends a turn.
func (e *streamEpoch[T]) pass() {
	e.mu.Lock()
	e.place++
	e.mu.Unlock()
	e.turn.Broadcast()
}

// take takes the batch of a number off the stream: nothing at its end. Batches before it that nobody has asked for
// were consumed before the State was taken that this loop resumes from.
func (f *streamFeed[T]) take(ctx context.Context, e *streamEpoch[T], number int) ([]item[T], *PanicError, error) {
	for {
		full := f.cfg.BatchSize
		items := make([]item[T], 0, min(full, 1024))
		for len(items) < full {
			it, ok, err := e.items.next(ctx)
			if err != nil {
				return nil, nil, err
			}
			if !ok {
				break
			}
			if it.panic != nil {
				return nil, it.panic, nil
			}
			items = append(items, it)
		}
		if len(items) < full && f.cfg.LastBatch == DropLast {
			items = nil
		}
		if len(items) == 0 {
			e.mu.Lock()
			e.over = true
			e.mu.Unlock()
			return nil, nil, nil
		}
		e.next++
		if e.next > number {
			return items, nil, nil
		}
	}
}

func (f *streamFeed[T]) batches(r *run) int {
	e := r.streaming.epoch.(*streamEpoch[T])
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next
}

// open starts an epoch: items of all shards, of which this rank's, shuffled.
func (f *streamFeed[T]) open(ctx context.Context, readers *readers, epoch int) puller[T] {
	rank, world := f.cfg.Rank, max(f.cfg.WorldSize, 1)
	m := &merge[T]{readers: readers, src: f.src, epoch: epoch, shard: func(k int) int { return k }, step: 1}
	if f.cfg.Shuffle {
		order := newEpochOrder(f.src.Shards, hash(f.cfg.Seed, 0, 0, streamBuffer), epoch)
		m.shard = func(k int) int { return order.at(uint64(f.src.Shards), uint64(k)) }
	}
	var items puller[T] = m
	switch {
	case world == 1:
	case f.src.SplitByShard:
		m.first, m.step = rank, world
	default:
		items = &deal[T]{of: m, rank: rank, world: world, cut: f.cfg.LastBatch == DropLast}
	}
	if f.cfg.Shuffle {
		items = &shuffleBuffer[T]{of: items, size: f.src.ShuffleBuffer, seed: f.cfg.Seed, epoch: epoch}
	}
	m.start(ctx)
	return items
}

// isEnd reports whether the slot stands for a stream's end: only then is nothing in it, nor was anything left out.
func (s *slot) isEnd() bool {
	return len(s.indices) == 0 && len(s.skipped) == 0 && s.err == nil && s.panic == nil
}

// streamEnd returns the place that r's loop ends at, now that a place has said that the stream is over: in an
// Unordered loop batches before the end may still be being read.
func (l *Loader) streamEnd(r *run) int {
	left := l.plan.feed.batches(r) - r.leg.first - len(r.leg.ahead)
	return r.leg.start + max(left, 0) + 1
}
