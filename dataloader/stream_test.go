package dataloader

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/leak"
)

// streamOf is a stream with shards of the given sizes, whose items are 1000 * shard + their place in it.
func streamOf(sizes ...int) Source[int] {
	return Source[int]{
		Fields: countFields, Shards: len(sizes),
		Open: func(ctx context.Context, epoch, shard int) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for k := range sizes[shard] {
					if !yield(1000*shard+k, nil) {
						return
					}
				}
			}
		},
		Read: func(_ context.Context, item int, row Row) error { write(item, row); return nil },
	}
}

// items runs a loop over a stream and returns the items of each batch, and their indices.
func items(t fatal, l *Loader, rows int) (got, indices [][]int) {
	t.Helper()
	for b, err := range l.Batches(context.Background()) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		n := b.Len()
		if rows > 0 {
			n = rows
		}
		own, ys := make([]int, n), b.Host(1).Data().([]int64)
		if len(ys) != n || len(b.Indices) != b.Len() {
			t.Fatalf("%d rows and %d indices, Len() = %d", len(ys), len(b.Indices), b.Len())
		}
		for k := range own {
			own[k] = int(ys[k])
			if x := b.Host(0).Data().([]float32)[6*k+5]; x != float32(own[k]*10+5) {
				t.Fatalf("item %d has %v", own[k], x)
			}
		}
		got, indices = append(got, own), append(indices, slices.Clone(b.Indices))
	}
	return got, indices
}

// merged is the order in which items of shards come, written down as a queue: who has given one goes to its end, and
// where one has none left the next shard takes its place at once.
func merged(sizes []int, lanes int) (order []int) {
	type shard struct{ number, at int }
	var queue []shard
	next := min(lanes, len(sizes))
	for number := range next {
		queue = append(queue, shard{number: number})
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for s.at == sizes[s.number] && next < len(sizes) {
			s = shard{number: next}
			next++
		}
		if s.at < sizes[s.number] {
			order = append(order, 1000*s.number+s.at)
			queue = append(queue, shard{s.number, s.at + 1})
		}
	}
	return order
}

func TestStreamHasEachItemOnce(t *testing.T) {
	e := newEngine(t)
	rapid.Check(t, func(r *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 5).Draw(r, "sizes")
		src := streamOf(sizes...)
		src.Interleave = rapid.IntRange(0, 4).Draw(r, "interleave")
		src.Ahead = rapid.IntRange(0, 3).Draw(r, "ahead")
		src.ShuffleBuffer = rapid.SampledFrom([]int{1, 3, 100}).Draw(r, "buffer")
		cfg := Config{
			BatchSize: rapid.IntRange(1, 9).Draw(r, "batch"), Workers: rapid.IntRange(1, 4).Draw(r, "workers"),
			Prefetch: rapid.IntRange(0, 3).Draw(r, "prefetch"), Shuffle: rapid.Bool().Draw(r, "shuffle"), Seed: rapid.Uint64().Draw(r, "seed"),
			Unordered: rapid.Bool().Draw(r, "unordered"), LastBatch: rapid.SampledFrom([]LastBatch{KeepLast, DropLast, PadLast}).Draw(r, "last"), Pin: e,
		}
		set, err := FromStream(src)
		if err != nil {
			r.Fatal(err)
		}
		l, err := New(set, cfg)
		if err != nil {
			r.Fatal(err)
		}
		want := merged(sizes, max(src.Interleave, 1))
		if cfg.LastBatch == DropLast {
			want = want[:len(want)/cfg.BatchSize*cfg.BatchSize]
		}
		rows := 0
		if cfg.LastBatch == PadLast {
			rows = cfg.BatchSize
		}
		for range 2 {
			got, indices := items(r, l, rows)
			for k := range got {
				got[k] = got[k][:len(indices[k])]
			}
			short := slices.DeleteFunc(slices.Clone(got), func(b []int) bool { return len(b) == cfg.BatchSize })
			if len(short) > 1 || len(got) != (len(want)+cfg.BatchSize-1)/cfg.BatchSize {
				r.Fatalf("batches %v of %v", got, want)
			}
			all, places := flat(got), flat(indices)
			if cfg.Shuffle || cfg.Unordered {
				slices.Sort(places)
				slices.Sort(all)
				if cfg.LastBatch == DropLast && cfg.Shuffle { // which ones are dropped is another matter
					if len(all) != len(want) || len(slices.Compact(all)) != len(want) {
						r.Fatalf("items %v", all)
					}
					continue
				}
				want = slices.Clone(want)
				slices.Sort(want)
			}
			if !slices.Equal(all, want) || !slices.Equal(places, numbers(len(want))) {
				r.Fatalf("items %v at %v, want %v", all, places, want)
			}
		}
		if err := l.Close(); err != nil {
			r.Fatal(err)
		}
	})
}

// The same batches for any number of workers; others for another seed and epoch.
func TestStreamOrderIsOfSeedAndEpoch(t *testing.T) {
	e := newEngine(t)
	src := streamOf(40, 30, 20, 50)
	src.Interleave, src.ShuffleBuffer = 2, 30
	run := func(seed uint64, workers int) (both [][]int) {
		l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 8, Shuffle: true, Seed: seed, Workers: workers, Pin: e})
		for range 2 {
			got, _ := items(t, l, 0)
			both = append(both, flat(got))
		}
		return both
	}
	want := run(1, 1)
	if got := run(1, 5); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("with 5 workers %v, with 1 %v", got, want)
	}
	if got := run(2, 1); slices.Equal(got[0], want[0]) || slices.Equal(want[0], want[1]) || slices.IsSorted(want[0]) {
		t.Errorf("seeds or epochs have the same order: %v, %v", got, want)
	}
}

// A buffer moves items no further ahead than it is large, and one as large as the stream is a shuffle.
func TestStreamShuffleBuffer(t *testing.T) {
	leak.Check(t)
	const n, size = 40, 8
	place, first := make([]int, n), make([]int, n)
	for epoch := range 2000 {
		for _, buffer := range []int{size, n} {
			s := &shuffleBuffer[int]{of: &countUp{n: n}, size: buffer, seed: 5, epoch: epoch}
			seen := make(map[int]bool)
			for k := range n {
				it, ok, err := s.next(t.Context())
				if !ok || err != nil || seen[it.value] {
					t.Fatalf("place %d: %v, %v, %v", k, it, ok, err)
				}
				seen[it.value] = true
				if buffer == size && it.value > k+size-1 {
					t.Fatalf("item %d came at place %d out of a buffer of %d", it.value, k, size)
				}
				if buffer == n {
					if it.value == 3 {
						place[k]++
					}
					if k == 0 {
						first[it.value]++
					}
				}
			}
			if _, ok, err := s.next(t.Context()); ok || err != nil {
				t.Fatal("more items than there are")
			}
		}
	}
	for name, counts := range map[string][]int{"places of item 3": place, "items at place 0": first} {
		if z := chiSquared(counts); math.Abs(z) > sigmas {
			t.Errorf("%s are off by %.1f sigma", name, z)
		}
	}
}

// countUp gives 0 to n-1.
type countUp struct{ n, at int }

func (s *countUp) next(context.Context) (item[int], bool, error) {
	if s.at == s.n {
		return item[int]{}, false, nil
	}
	s.at++
	return item[int]{value: s.at - 1, index: s.at - 1}, true, nil
}

// Ranks of a stream get what ranks of a set get.
func TestStreamRanks(t *testing.T) {
	e := newEngine(t)
	for n := range 12 {
		for world := 1; world <= 5; world++ {
			for _, last := range []LastBatch{KeepLast, DropLast} {
				for rank := range world {
					cfg := Config{BatchSize: 2, LastBatch: last, Rank: rank, WorldSize: world, Workers: 2, Pin: e}
					_, got := items(t, newLoader(t, must[Dataset](t)(FromStream(streamOf(n))), cfg), 0)
					want := epoch(t, newLoader(t, counting(n), cfg))
					if !slices.EqualFunc(got, want, slices.Equal) {
						t.Fatalf("%d items, rank %d of %d, %v: %v, want %v", n, rank, world, last, got, want)
					}
				}
			}
		}
	}
}

func TestStreamSplitByShard(t *testing.T) {
	e := newEngine(t)
	for _, shuffle := range []bool{false, true} {
		var all, places []int
		for rank := range 3 {
			src := streamOf(5, 4, 3, 6, 7)
			src.SplitByShard, src.Interleave = true, 2
			own := src.Open
			opened := make(chan int, 100)
			src.Open = func(ctx context.Context, epoch, shard int) iter.Seq2[int, error] {
				opened <- shard
				return own(ctx, epoch, shard)
			}
			l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 4, Shuffle: shuffle, Rank: rank, WorldSize: 3, Pin: e})
			got, indices := items(t, l, 0)
			all, places = append(all, flat(got)...), append(places, flat(indices)...)
			if n := len(opened); n > 2 {
				t.Errorf("rank %d opened %d of 5 shards", rank, n)
			}
		}
		slices.Sort(all)
		slices.Sort(places)
		want := merged([]int{5, 4, 3, 6, 7}, 1)
		if !slices.Equal(all, want) || len(slices.Compact(places)) != len(want) {
			t.Errorf("items %v at %v, want %v", all, places, want)
		}
	}
}

// A State at any batch continues with the very next one, with other workers, in order or not.
func TestStreamResumes(t *testing.T) {
	e := newEngine(t)
	src := streamOf(9, 4, 6)
	src.Interleave, src.ShuffleBuffer = 2, 5
	set := must[Dataset](t)(FromStream(src))
	for _, last := range []LastBatch{KeepLast, DropLast} {
		for _, unordered := range []bool{false, true} {
			cfg := Config{BatchSize: 4, Shuffle: true, Seed: 3, LastBatch: last, Workers: 3, Unordered: unordered, Pin: e}
			type seen struct{ epoch, batch int }
			var whole []seen
			var states [][]byte
			contents := make(map[seen][]int)
			l := newLoader(t, set, cfg)
			loop := func(l *Loader, then func(at seen, own []int)) {
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					then(seen{b.Epoch, b.Index}, slices.Clone(b.Indices))
				}
			}
			for range 3 {
				loop(l, func(at seen, own []int) {
					whole, contents[at] = append(whole, at), own
					states = append(states, must[[]byte](t)(json.Marshal(l.State())))
				})
			}
			for k, text := range states {
				var state State
				if err := json.Unmarshal(text, &state); err != nil {
					t.Fatal(err)
				}
				cfg.Workers = 1 + k%2
				again := newLoader(t, set, cfg)
				if err := again.Restore(state); err != nil {
					t.Fatal(err)
				}
				var got []seen
				for range 3 - whole[k].epoch {
					loop(again, func(at seen, own []int) {
						if got = append(got, at); !slices.Equal(own, contents[at]) {
							t.Fatalf("after batch %v: batch %v is %v, was %v", whole[k], at, own, contents[at])
						}
					})
				}
				want := whole[k+1:]
				if unordered {
					want, got = slices.Clone(want), slices.Clone(got)
					less := func(a, b seen) int { return (a.epoch-b.epoch)*1000 + a.batch - b.batch }
					slices.SortFunc(want, less)
					slices.SortFunc(got, less)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("after batch %v: %v, want %v", whole[k], got, want)
				}
				if s := again.State(); s.Epoch != 3 || s.Batch != 0 {
					t.Errorf("State after the epochs: %+v", s)
				}
				again.Close()
			}
			other := must[Dataset](t)(FromStream(streamOf(9)))
			var state State
			if err := json.Unmarshal(states[0], &state); err != nil {
				t.Fatal(err)
			}
			if err := newLoader(t, other, cfg).Restore(state); !errors.Is(err, ErrState) {
				t.Errorf("Restore of another stream's State: %v", err)
			}
			state.Batch, state.Ahead = 1000, nil // that the epoch does not have: nothing is left of it
			again := newLoader(t, set, cfg)
			if err := again.Restore(state); err != nil {
				t.Fatal(err)
			}
			loop(again, func(at seen, _ []int) { t.Errorf("batch %v", at) })
		}
	}
}

// Batches of a stream are batches: kept, padded, on a device.
func TestStreamToDevice(t *testing.T) {
	e := newEngine(t)
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	stream := must[*asynccopy.Stream](t)(dev.NewStream())
	l := newLoader(t, must[Dataset](t)(FromStream(streamOf(10))), Config{BatchSize: 4, LastBatch: PadLast, Stream: stream, Pin: e})
	if n := l.Len(); n != -1 {
		t.Errorf("Len() = %d", n)
	}
	if s := l.Stats(); s.PinnedLimit < int64(s.Prefetch+1)*4*32 {
		t.Errorf("%+v", s)
	}
	var kept []*Batch
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		b.Keep()
		kept = append(kept, b)
	}
	for _, b := range kept {
		download := must[*asynccopy.Download](t)(stream.ToHost(b.Device(1), true))
		host, err := download.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range host.Data().([]int64) {
			if int(v) != b.Indices[k%b.Len()] {
				t.Errorf("batch %d: %v, of %v", b.Index, host, b.Indices)
			}
		}
		if err := b.Release(); err != nil {
			t.Error(err)
		}
	}
	if len(kept) != 3 {
		t.Errorf("%d batches", len(kept))
	}
}
