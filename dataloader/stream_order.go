package dataloader

// The order of a stream's items: shards in turn, the share of a rank, a shuffle within a buffer. Each step takes
// items off the one before, and none is used by two goroutines at once.

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
)

// puller gives items one by one. ok is false at the end, and err not nil only when ctx is done.
type puller[T any] interface {
	next(ctx context.Context) (it item[T], ok bool, err error)
}

// merge takes items from open shards in turn.
type merge[T any] struct {
	src         *Source[T]
	epoch       int
	shard       func(k int) int // the shard at place k of their order
	first, step int             // places of this rank's shards; items are numbered like that as well
	begun       int             // shards that were opened
	lanes       []chan item[T]
	lane        int // whose turn it is
	count       int // items so far
	readers     *readers
}

// start opens the first shards. Goroutines that read shards have the context of the call that opens them, which is
// the run's.
func (m *merge[T]) start(ctx context.Context) {
	for range m.src.Interleave {
		if lane := m.open(ctx); lane != nil {
			m.lanes = append(m.lanes, lane)
		}
	}
}

// open starts reading the next shard, if there is one.
func (m *merge[T]) open(ctx context.Context) chan item[T] {
	k := m.first + m.begun*m.step
	if k >= m.src.Shards {
		return nil
	}
	m.begun++
	lane, shard := make(chan item[T], m.src.Ahead), m.shard(k)
	m.readers.add(shard)
	go m.read(ctx, shard, lane)
	return lane
}

// read reads one shard.
func (m *merge[T]) read(ctx context.Context, shard int, lane chan<- item[T]) {
	defer m.readers.remove(shard)
	defer close(lane)
	send := func(it item[T]) bool {
		select {
		case lane <- it:
			return true
		case <-ctx.Done():
			return false
		}
	}
	whole := false
	defer func() {
		if whole {
			return
		}
		if value := recover(); value != nil {
			send(item[T]{panic: &PanicError{Value: value, Stack: debug.Stack()}})
			return
		}
		send(item[T]{err: errGoexit})
	}()
	items := m.src.Open(ctx, m.epoch, shard)
	if items == nil {
		send(item[T]{err: errors.New("Source.Open returned nil: want a sequence")})
		whole = true
		return
	}
	for value, err := range items {
		if !send(item[T]{value: value, err: err}) {
			break
		}
	}
	whole = true
}

func (m *merge[T]) next(ctx context.Context) (it item[T], ok bool, err error) {
	for len(m.lanes) > 0 {
		select {
		case it, ok = <-m.lanes[m.lane]:
		case <-ctx.Done():
			return it, false, ctx.Err()
		}
		if ok {
			it.index = m.first + m.count*m.step
			m.count++
			m.lane = (m.lane + 1) % len(m.lanes)
			return it, true, nil
		}
		if err := ctx.Err(); err != nil { // that is why the shard has ended
			return it, false, err
		}
		if lane := m.open(ctx); lane != nil {
			m.lanes[m.lane] = lane
			continue
		}
		m.lanes = slices.Delete(m.lanes, m.lane, m.lane+1)
		if m.lane == len(m.lanes) {
			m.lane = 0
		}
	}
	return it, false, nil
}

// deal takes every world-th item, and makes all ranks' shares equal: filled up from the start, or cut.
type deal[T any] struct {
	of          puller[T]
	rank, world int
	cut         bool
	count       int       // items so far
	start       []item[T] // the first of them, for filling up
	over        bool
}

func (d *deal[T]) next(ctx context.Context) (item[T], bool, error) {
	var own item[T]
	have := false
	for !d.over {
		it, ok, err := d.of.next(ctx)
		if err != nil {
			return it, false, err
		}
		if !ok {
			d.over = true
			break
		}
		if it.panic != nil {
			return it, true, nil
		}
		if !d.cut && len(d.start) < d.world {
			d.start = append(d.start, it)
		}
		if d.count%d.world == d.rank {
			own, have = it, true
		}
		d.count++
		// With cut an item counts only if every rank gets one of its round.
		if have && (!d.cut || d.count%d.world == 0) {
			return own, true, nil
		}
	}
	// The last round may have had too few items for this rank.
	if rest := d.count % d.world; rest > 0 && rest <= d.rank && !d.cut && len(d.start) > 0 {
		place := d.count - rest + d.rank
		own = d.start[place%d.count]
		d.start = nil
		return own, true, nil
	}
	return item[T]{}, false, nil
}

// shuffleBuffer holds size items, of which each time one at random goes, and the next takes its place.
type shuffleBuffer[T any] struct {
	of    puller[T]
	size  int
	seed  uint64
	epoch int
	held  []item[T]
	drawn uint64
	over  bool
}

func (s *shuffleBuffer[T]) next(ctx context.Context) (item[T], bool, error) {
	for !s.over && len(s.held) < s.size {
		it, ok, err := s.of.next(ctx)
		switch {
		case err != nil:
			return it, false, err
		case !ok:
			s.over = true
		case it.panic != nil:
			return it, true, nil
		default:
			s.held = append(s.held, it)
		}
	}
	n := len(s.held)
	if n == 0 {
		return item[T]{}, false, nil
	}
	at := reduce(hash(s.seed, uint64(s.epoch), s.drawn, streamBuffer), n)
	s.drawn++
	it := s.held[at]
	s.held[at] = s.held[n-1]
	s.held[n-1] = item[T]{}
	s.held = s.held[:n-1]
	return it, true, nil
}
