package dataloader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
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

// faulty is a stream of n items where item 3 is an error, and reading item 6 is one.
func faulty(n int) Source[int] {
	src := streamOf(n)
	src.Open = func(context.Context, int, int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for k := range n {
				var err error
				if k == 3 {
					err = errors.New("line is garbled")
				}
				if !yield(k, err) {
					return
				}
			}
		}
	}
	src.Read = func(_ context.Context, k int, row Row) error {
		write(k, row)
		return map[bool]error{true: errors.New("no picture")}[k == 6]
	}
	return src
}

func TestStreamErrorsComeInPlace(t *testing.T) {
	e := newEngine(t)
	set := must[Dataset](t)(FromStream(faulty(10)))
	l := newLoader(t, set, Config{BatchSize: 2, Workers: 3, Pin: e})
	var got []string
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, fmt.Sprint(b.Index, b.Indices))
	}
	want := []string{
		"0 [0 1]", "dataloader: epoch 0, batch 1, sample 3: line is garbled", "2 [4 5]",
		"dataloader: epoch 0, batch 3, sample 6: no picture", "4 [8 9]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	l = newLoader(t, set, Config{BatchSize: 2, OnError: SkipErrors, Pin: e})
	if got, want := epoch(t, l), [][]int{{0, 1}, {2}, {4, 5}, {7}, {8, 9}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
	if s := l.Stats(); s.Skipped != 2 {
		t.Errorf("%+v", s)
	}
}

func TestStreamPanics(t *testing.T) {
	e := newEngine(t)
	broken := errors.New("broken")
	for name, open := range map[string]func() iter.Seq2[int, error]{
		"Open": func() iter.Seq2[int, error] { panic(broken) },
		"sequence": func() iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				if yield(1, nil) && yield(2, nil) {
					panic(broken)
				}
			}
		},
	} {
		src := streamOf(1)
		src.Open = func(context.Context, int, int) iter.Seq2[int, error] { return open() }
		l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 1, Workers: 2, Pin: e})
		func() {
			defer func() {
				p, ok := recover().(*PanicError)
				if !ok || !errors.Is(p, broken) || p.Index != -1 || !strings.Contains(string(p.Stack), "stream_test.go") {
					t.Errorf("%s: panic %v", name, p)
				}
			}()
			for _, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			t.Errorf("%s: no panic", name)
		}()
	}
	for want, open := range map[string]func() iter.Seq2[int, error]{
		"Source.Open returned nil": func() iter.Seq2[int, error] { return nil },
		"runtime.Goexit":           func() iter.Seq2[int, error] { runtime.Goexit(); return nil },
	} {
		src := streamOf(1)
		src.Open = func(context.Context, int, int) iter.Seq2[int, error] { return open() }
		l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 1, Pin: e})
		turns := 0
		for _, err := range l.Batches(t.Context()) {
			if turns++; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		if turns != 1 {
			t.Errorf("%d turns, want one with an error %q", turns, want)
		}
	}
}

// Leaving a loop, at any batch, ends the goroutines that read the stream: also of one without an end.
func TestStreamIsLeft(t *testing.T) {
	e := newEngine(t)
	src := streamOf(1, 1, 1)
	ended := make(chan bool, 100)
	src.Interleave = 3
	src.Open = func(_ context.Context, _, shard int) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			defer func() { ended <- true }()
			for k := 0; yield(1000*shard+k%1000, nil); k++ {
			}
		}
	}
	for _, unordered := range []bool{false, true} {
		l := newLoader(t, must[Dataset](t)(FromStream(src)), Config{BatchSize: 4, Workers: 3, Unordered: unordered, Pin: e})
		for leave := range 5 {
			turns := 0
			for _, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if turns++; turns > leave {
					break
				}
			}
			if n := len(ended); n != 3 {
				t.Fatalf("%d of 3 readers have ended", n)
			}
			for range 3 {
				<-ended
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range l.Batches(ctx) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			cancel()
		}
		for _, err := range l.Batches(t.Context()) {
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 {
			<-ended
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

func TestStreamRefuses(t *testing.T) {
	e := newEngine(t)
	change := func(do func(s *Source[int])) error {
		src := streamOf(1, 1)
		do(&src)
		_, err := FromStream(src)
		return err
	}
	load := func(cfg Config, do func(s *Source[int])) error {
		src := streamOf(1, 1)
		do(&src)
		cfg.BatchSize, cfg.Pin = 1, e
		if cfg.BatchSampler != nil {
			cfg.BatchSize = 0
		}
		_, err := New(must[Dataset](t)(FromStream(src)), cfg)
		return err
	}
	none := func(*Source[int]) {}
	set := must[Dataset](t)(FromStream(streamOf(1)))
	_, inside := Concat(set)
	rows := must[Rows](t)(MakeRows(set.Fields(), 1))
	for want, err := range map[string]error{
		"FromStream: Source.Open = nil: want a function":                      change(func(s *Source[int]) { s.Open = nil }),
		"FromStream: Source.Read = nil: want a function":                      change(func(s *Source[int]) { s.Read = nil }),
		"FromStream: Source.Shards = -1: want >= 0":                           change(func(s *Source[int]) { s.Shards = -1 }),
		"FromStream: Source.Interleave = -1: want 0 to":                       change(func(s *Source[int]) { s.Interleave = -1 }),
		"FromStream: Source.Ahead = -1: want 0 to":                            change(func(s *Source[int]) { s.Ahead = -1 }),
		"FromStream: Source.ShuffleBuffer = -1: want >= 0":                    change(func(s *Source[int]) { s.ShuffleBuffer = -1 }),
		"Config.Sampler = dataloader.fixedSampler: want nil with a stream":    load(Config{Sampler: fixedSampler{}}, none),
		"Config.BatchSampler = dataloader.fixedBatches: want nil with a stre": load(Config{BatchSampler: fixedBatches{}}, none),
		"Config.WorldSize = 3: want at most 2, the shards":                    load(Config{WorldSize: 3}, func(s *Source[int]) { s.SplitByShard = true }),
		"Dataset.Fields(): no fields":                                         load(Config{}, func(s *Source[int]) { s.Fields = nil }),
		"Concat: set 0: Len() = -1: want >= 0":                                inside,
		"only a Loader can read it":                                           set.Read(t.Context(), 0, rows.Row(0)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
