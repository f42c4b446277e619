package dataloader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
	"github.com/pintensor/pin/pintensor/pintest"
)

// newEngine returns an engine of the test's own, and fails the test if anything of it is in use at its end.
func newEngine(t testing.TB) *pintensor.Engine {
	t.Helper()
	leak.Check(t)
	var opts []pintensor.Option
	if _, isTest := t.(*testing.T); isTest { // not a benchmark: it would be one of the tracking
		opts = append(opts, pintensor.WithLeakTracking())
	}
	e, err := pintensor.NewEngine(opts...)
	if err != nil {
		t.Fatal(err)
	}
	pintest.Check(t, e)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Engine.Close: %v", err)
		}
	})
	return e
}

var countFields = []Field{
	{Name: "value", Dtype: tensor.Float32, Shape: tensor.Shape{2, 3}},
	{Name: "index", Dtype: tensor.Int64},
}

// write writes sample i of the counting set: six values made from i, and i.
func write(i int, row Row) {
	for j := range Values[float32](row, 0) {
		Values[float32](row, 0)[j] = float32(i*10 + j)
	}
	Values[int64](row, 1)[0] = int64(i)
}

func counting(n int) Dataset {
	return FromFunc(n, countFields, func(_ context.Context, i int, row Row) error {
		write(i, row)
		return nil
	})
}

// verify returns an error unless the batch's tensors hold the samples that Indices says.
func verify(b *Batch, rows int) error {
	x, y := b.Host(0), b.Host(1)
	if !x.Shape().Eq(tensor.Shape{rows, 2, 3}) || !y.Shape().Eq(tensor.Shape{rows}) {
		return fmt.Errorf("shapes %v and %v, want %d rows", x.Shape(), y.Shape(), rows)
	}
	if len(b.Indices) != b.Len() || b.Len() > rows {
		return fmt.Errorf("%d indices, Len() = %d, %d rows", len(b.Indices), b.Len(), rows)
	}
	xs, ys := x.Data().([]float32), y.Data().([]int64)
	for k := range rows {
		i := b.Indices[k%b.Len()]
		if ys[k] != int64(i) {
			return fmt.Errorf("batch %d, row %d is of sample %d, want %d", b.Index, k, ys[k], i)
		}
		for j := range 6 {
			if xs[k*6+j] != float32(i*10+j) {
				return fmt.Errorf("batch %d, row %d holds %v, want sample %d", b.Index, k, xs[k*6:k*6+6], i)
			}
		}
	}
	return nil
}

func newLoader(t testing.TB, ds Dataset, cfg Config) *Loader {
	t.Helper()
	if cfg.Pin == nil {
		cfg.Pin = newEngine(t)
	}
	l, err := New(ds, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if s := l.Stats(); s.PinnedBytes != 0 || s.Slots != 0 {
			t.Errorf("after Close: %d slots of %d bytes", s.Slots, s.PinnedBytes)
		}
	})
	return l
}

// epoch runs one loop and returns the indices of each batch.
func epoch(t testing.TB, l *Loader) [][]int {
	t.Helper()
	var got [][]int
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, slices.Clone(b.Indices))
	}
	return got
}

func flat(batches [][]int) []int { return slices.Concat(batches...) }

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestEachSampleOnceInEveryMode(t *testing.T) {
	e := newEngine(t)
	for _, batch := range []int{1, 4, 5} {
		for _, n := range []int{0, 1, batch - 1, batch, batch + 1, 3*batch + 2} {
			for _, last := range []LastBatch{KeepLast, DropLast, PadLast} {
				for _, workers := range []int{1, 2, 7} {
					for _, prefetch := range []int{0, 1, 3} {
						for _, shuffle := range []bool{false, true} {
							for _, unordered := range []bool{false, true} {
								cfg := Config{BatchSize: batch, LastBatch: last, Workers: workers, Prefetch: prefetch, Shuffle: shuffle, Unordered: unordered, Pin: e}
								everySampleOnce(t, n, cfg)
							}
						}
					}
				}
			}
		}
	}
}

func everySampleOnce(t *testing.T, n int, cfg Config) {
	t.Helper()
	l, err := New(counting(n), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		var got []int
		batches := 0
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			rows := b.Len()
			if cfg.LastBatch == PadLast {
				rows = cfg.BatchSize
			}
			if err := verify(b, rows); err != nil {
				t.Fatalf("n = %d, %+v: %v", n, cfg, err)
			}
			if !cfg.Unordered && b.Index != batches {
				t.Fatalf("n = %d, %+v: batch %d came as number %d", n, cfg, b.Index, batches)
			}
			got = append(got, b.Indices...)
			batches++
		}
		if batches != l.Len() {
			t.Fatalf("n = %d, %+v: %d batches, Len() = %d", n, cfg, batches, l.Len())
		}
		want := n
		if cfg.LastBatch == DropLast {
			want -= n % cfg.BatchSize
		}
		if cfg.Shuffle && cfg.LastBatch == DropLast {
			if len(got) != want {
				t.Fatalf("n = %d, %+v: %d samples, want %d", n, cfg, len(got), want)
			}
		}
		if !cfg.Shuffle && !cfg.Unordered && !slices.Equal(got, upTo(want)) {
			t.Fatalf("n = %d, %+v: order %v", n, cfg, got)
		}
		slices.Sort(got)
		if len(slices.Compact(got)) != want {
			t.Fatalf("n = %d, %+v: samples %v, want %d of them once", n, cfg, got, want)
		}
	}
}

func TestOrderDoesNotDependOnWorkers(t *testing.T) {
	e := newEngine(t)
	var want [][]int
	for _, workers := range []int{1, 2, 3, 16} {
		for _, prefetch := range []int{1, 2, 9} {
			l := newLoader(t, counting(97), Config{BatchSize: 7, Shuffle: true, Seed: 3, Workers: workers, Prefetch: prefetch, Pin: e})
			got := append(epoch(t, l), epoch(t, l)...)
			if want == nil {
				want = got
			}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%d workers, prefetch %d: order differs", workers, prefetch)
			}
		}
	}
	if slices.EqualFunc(want[:14], want[14:], slices.Equal) {
		t.Error("the second epoch has the first one's order")
	}
}

func TestSetEpoch(t *testing.T) {
	l := newLoader(t, counting(40), Config{BatchSize: 8, Shuffle: true})
	first, second := epoch(t, l), epoch(t, l)
	l.SetEpoch(0)
	if got := epoch(t, l); !slices.EqualFunc(got, first, slices.Equal) {
		t.Errorf("SetEpoch(0): order %v, want %v", got, first)
	}
	if got := epoch(t, l); !slices.EqualFunc(got, second, slices.Equal) {
		t.Errorf("the epoch after SetEpoch(0): order %v, want %v", got, second)
	}
	for b, err := range l.Batches(t.Context()) {
		if err != nil || b.Epoch != 2 {
			t.Fatalf("epoch %d, error %v", b.Epoch, err)
		}
		l.SetEpoch(1)
	}
	if got := epoch(t, l); !slices.EqualFunc(got, second, slices.Equal) {
		t.Errorf("SetEpoch(1) in a loop: next order %v, want %v", got, second)
	}
	l.SetEpoch(-1)
	for _, err := range l.Batches(t.Context()) {
		if err == nil {
			t.Fatal("no error after SetEpoch(-1)")
		}
	}
	if got := l.State().Epoch; got != 2 {
		t.Errorf("epoch %d after a refused one, want 2", got)
	}
}

func TestBreakGoesToTheNextEpoch(t *testing.T) {
	l := newLoader(t, counting(100), Config{BatchSize: 3, Workers: 4})
	for want := range 1000 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Epoch != want || b.Index != 0 {
				t.Fatalf("batch %d of epoch %d, want 0 of %d", b.Index, b.Epoch, want)
			}
			break
		}
	}
	if s := l.Stats(); s.Slots > int64(s.Prefetch+1) || s.Batches != 1000 || s.Stuck != 0 {
		t.Errorf("after 1000 breaks: %+v", s)
	}
}

func TestSecondLoopIsRefused(t *testing.T) {
	l := newLoader(t, counting(10), Config{BatchSize: 2})
	turns := 0
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for inner, err := range l.Batches(t.Context()) {
			if inner != nil || !errors.Is(err, ErrRunning) {
				t.Fatalf("second loop: %v, %v", inner, err)
			}
		}
		if err := l.Restore(l.State()); !errors.Is(err, ErrRunning) {
			t.Fatalf("Restore in a loop: %v", err)
		}
		if err := verify(b, 2); err != nil {
			t.Fatal(err)
		}
		turns++
	}
	if turns != 5 {
		t.Errorf("%d turns, want 5", turns)
	}
}

// batchedFunc gives a Dataset a ReadBatch.
type batchedFunc struct {
	Dataset
	read func(ctx context.Context, indices []int, rows Rows) error
}

func (b batchedFunc) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return b.read(ctx, indices, rows)
}

// Several workers fill a large batch together; each row must be offered to exactly one of them.
func TestLargeBatchIsSharedAmongWorkers(t *testing.T) {
	fields := []Field{{Name: "big", Dtype: tensor.Uint8, Shape: tensor.Shape{100_000}}, {Name: "n", Dtype: tensor.Int64}}
	parts := make(chan int, 1000)
	ds := batchedFunc{FromFunc(64, fields, nil), func(_ context.Context, indices []int, rows Rows) error {
		if rows.Len() != len(indices) || len(rows.Bytes(0)) != len(indices)*100_000 {
			return fmt.Errorf("%d rows of %d bytes for %d samples", rows.Len(), len(rows.Bytes(0)), len(indices))
		}
		for k, i := range indices {
			RowsValues[int64](rows, 1)[k] += int64(i)
			rows.Row(k).Bytes(0)[i]++
		}
		parts <- len(indices)
		return nil
	}}
	ds.Dataset.(*funcDataset).read = func(context.Context, int, Row) error { return errors.New("not used") }
	l := newLoader(t, ds, Config{BatchSize: 32, Workers: 4, SingleEpoch: true})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for k, i := range b.Indices {
			if got := b.Host(1).Data().([]int64)[k]; got != int64(i) {
				t.Errorf("row %d: %d, want %d", k, got, i)
			}
			if got := b.Host(0).Data().([]byte)[k*100_000+i]; got != 1 {
				t.Errorf("row %d was written %d times", k, got)
			}
		}
	}
	close(parts)
	if len(parts) < 4 {
		t.Errorf("2 batches of 3.2 MB were read in %d parts", len(parts))
	}
}

func TestRandomLengthsAndShapes(t *testing.T) {
	e := newEngine(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		cfg := Config{
			BatchSize: rapid.IntRange(1, 70).Draw(t, "batch"), Workers: rapid.IntRange(1, 5).Draw(t, "workers"),
			Prefetch: rapid.IntRange(0, 5).Draw(t, "prefetch"), LastBatch: LastBatch(rapid.IntRange(0, 2).Draw(t, "last")),
			WorldSize: rapid.IntRange(1, 5).Draw(t, "world"), Shuffle: rapid.Bool().Draw(t, "shuffle"), Pin: e,
		}
		seen := make(map[int]int)
		batches := -1
		for rank := range cfg.WorldSize {
			cfg.Rank = rank
			l, err := New(counting(n), cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for b, err := range l.Batches(context.Background()) {
				if err != nil {
					t.Fatal(err)
				}
				for _, i := range b.Indices {
					seen[i]++
				}
				got++
			}
			if got != l.Len() || batches >= 0 && got != batches {
				t.Fatalf("rank %d has %d batches, Len() = %d, rank 0 has %d", rank, got, l.Len(), batches)
			}
			batches = got
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if cfg.LastBatch != DropLast && len(seen) != n {
			t.Fatalf("all ranks together saw %d of %d samples", len(seen), n)
		}
		most := 1
		if n > 0 {
			most = (n + cfg.WorldSize - 1) / n // how often the order may be filled up from its start
			most = max(most, 1) + 1
		}
		if cfg.LastBatch == DropLast {
			most = 1
		}
		for i, times := range seen {
			if times > most {
				t.Fatalf("sample %d came %d times", i, times)
			}
		}
	})
}
