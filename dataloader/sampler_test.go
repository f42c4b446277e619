package dataloader

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

func TestWeightedMatchesWeights(t *testing.T) {
	leak.Check(t)
	for _, weights := range [][]float64{
		{1}, {1, 1}, {1, 2, 3, 4}, {0, 1, 0}, {0.001, 1000}, {math.MaxFloat64, math.MaxFloat64}, {1e-300, 3e-300}, {0, 0, 5, 0, 0, 5},
	} {
		const draws = 60000
		s, err := Weighted(weights, draws, 7)
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() != draws {
			t.Fatalf("Len() = %d", s.Len())
		}
		sum, largest := 0.0, slices.Max(weights)
		for _, w := range weights {
			sum += w / largest
		}
		counts := make([]float64, len(weights))
		for k := range draws {
			counts[s.Index(2, k)]++
		}
		for i, w := range weights {
			p := w / largest / sum
			want, sigma := p*draws, math.Sqrt(p*(1-p)*draws)
			if math.Abs(counts[i]-want) > sigmas*sigma {
				t.Errorf("weights %v: sample %d came %v times, want %.0f ± %.0f", weights, i, counts[i], want, sigma)
			}
		}
	}
}

func TestWeightedManyWeights(t *testing.T) {
	leak.Check(t)
	weights := make([]float64, 200_000)
	for i := range weights {
		weights[i] = float64(i % 3)
	}
	s, err := Weighted(weights, 100_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, 3)
	blocks := make([]int, 50)
	for k := range s.Len() {
		i := s.Index(0, k)
		counts[i%3]++
		blocks[i*50/len(weights)]++
	}
	if share := float64(counts[1]) / 100_000; counts[0] != 0 || math.Abs(share-1.0/3) > 0.01 {
		t.Errorf("draws by weight: %v, want none, a third, two thirds", counts)
	}
	if z := chiSquared(blocks); z > sigmas {
		t.Errorf("draws over the set are off by %.1f sigma", z)
	}
	if n := testing.AllocsPerRun(100, func() { s.Index(1, 5) }); n != 0 {
		t.Errorf("%v allocations a draw", n)
	}
}

func TestWeightedEpochsAndSeedsDiffer(t *testing.T) {
	leak.Check(t)
	draw := func(seed uint64, epoch int) []int {
		s, err := Weighted(make64(100, 1), 100, seed)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int, 100)
		for k := range got {
			got[k] = s.Index(epoch, k)
		}
		return got
	}
	if !slices.Equal(draw(1, 0), draw(1, 0)) {
		t.Error("an epoch's draws are not repeatable")
	}
	if slices.Equal(draw(1, 0), draw(1, 1)) || slices.Equal(draw(1, 0), draw(2, 0)) {
		t.Error("epochs or seeds have the same draws")
	}
}

func make64(n int, v float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func TestWeightedRefusesBadWeights(t *testing.T) {
	leak.Check(t)
	for want, call := range map[string]func() (Sampler, error){
		"n = -1: want >= 0":                      func() (Sampler, error) { return Weighted([]float64{1}, -1, 0) },
		"0 weights, none above zero":             func() (Sampler, error) { return Weighted(nil, 5, 0) },
		"2 weights, none above zero":             func() (Sampler, error) { return Weighted([]float64{0, 0}, 5, 0) },
		"weights[1] = -2: want a finite number":  func() (Sampler, error) { return Weighted([]float64{1, -2}, 5, 0) },
		"weights[0] = NaN: want a finite number": func() (Sampler, error) { return Weighted([]float64{math.NaN()}, 5, 0) },
		"weights[0] = +Inf: want a finite":       func() (Sampler, error) { return Weighted([]float64{math.Inf(1)}, 5, 0) },
	} {
		if s, err := call(); err == nil || !strings.Contains(err.Error(), "dataloader: Weighted: "+want) {
			t.Errorf("%v, %v, want error %q", s, err, want)
		}
	}
}

func TestLoaderWithSampler(t *testing.T) {
	e := newEngine(t)
	l := newLoader(t, counting(10), Config{BatchSize: 4, Sampler: fixedSampler{9, 9, 0, 3, 7, 1}, Workers: 3, Pin: e})
	if got, want := epoch(t, l), [][]int{{9, 9, 0, 3}, {7, 1}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("batches %v, want %v", got, want)
	}
	l = newLoader(t, counting(10), Config{BatchSampler: fixedBatches{{1, 2, 3}, {}, {4}, {5, 6, 7, 8, 9, 0}}, Workers: 3, Pin: e})
	for range 2 {
		if got, want := epoch(t, l), [][]int{{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 0}}; !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("batches %v, want %v", got, want)
		}
	}
}

// What a BatchSampler returns is its own memory, and must not be changed by leaving samples out.
func TestBatchSamplersMemoryIsNotChanged(t *testing.T) {
	batches := fixedBatches{{1, 2, 3}, {4, 5, 6}}
	ds := failing(10, func(i int) error {
		if i == 1 || i == 5 {
			return context.DeadlineExceeded
		}
		return nil
	})
	l := newLoader(t, ds, Config{BatchSampler: batches, OnError: SkipErrors})
	for range 3 {
		if got, want := epoch(t, l), [][]int{{2, 3}, {4, 6}}; !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("batches %v, want %v", got, want)
		}
	}
	if !slices.EqualFunc(batches, [][]int{{1, 2, 3}, {4, 5, 6}}, slices.Equal) {
		t.Errorf("the sampler's batches are %v now", batches)
	}
}

// Ranks get what PyTorch's DistributedSampler gives them.
func TestRanksAsPyTorch(t *testing.T) {
	e := newEngine(t)
	for _, test := range []struct {
		n, world int
		last     LastBatch
		want     [][]int
	}{
		{5, 2, KeepLast, [][]int{{0, 2, 4}, {1, 3, 0}}},
		{5, 2, DropLast, [][]int{{0, 2}, {1, 3}}},
		{6, 2, KeepLast, [][]int{{0, 2, 4}, {1, 3, 5}}},
		{2, 5, KeepLast, [][]int{{0}, {1}, {0}, {1}, {0}}},
		{2, 5, DropLast, [][]int{nil, nil, nil, nil, nil}},
		{0, 2, KeepLast, [][]int{nil, nil}},
	} {
		for rank, want := range test.want {
			l := newLoader(t, counting(test.n), Config{BatchSize: 1, LastBatch: test.last, Rank: rank, WorldSize: test.world, Pin: e})
			if got := flat(epoch(t, l)); !slices.Equal(got, want) {
				t.Errorf("%d samples, rank %d of %d, %v: %v, want %v", test.n, rank, test.world, test.last, got, want)
			}
		}
	}
	for rank, want := range [][][]int{{{0}, {2}}, {{1}, {0}}} {
		l := newLoader(t, counting(3), Config{BatchSampler: fixedBatches{{0}, {1}, {2}}, Rank: rank, WorldSize: 2, Pin: e})
		if got := epoch(t, l); l.Len() != 2 || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("batches of rank %d: %v, want %v", rank, got, want)
		}
	}
}

// Each sample has its own generator, the same whatever reads it, and another in each epoch.
func TestRowRand(t *testing.T) {
	e := newEngine(t)
	fields := []Field{{Name: "random", Dtype: tensor.Uint64, Shape: tensor.Shape{2}}}
	read := func(_ context.Context, _ int, row Row) error {
		v := Values[uint64](row, 0)
		v[0], v[1] = row.Rand().Uint64(), row.Rand().Uint64()
		return nil
	}
	batched := batchedFunc{FromFunc(50, fields, read), func(ctx context.Context, indices []int, rows Rows) error {
		for k := range indices {
			if err := read(ctx, 0, rows.Row(k)); err != nil {
				return err
			}
		}
		if slices.Contains(indices, 33) {
			return context.DeadlineExceeded // its samples are read again: with the same numbers
		}
		return nil
	}}
	var want map[[2]int][2]uint64
	for _, ds := range []Dataset{FromFunc(50, fields, read), batched} {
		for _, cfg := range []Config{
			{BatchSize: 1, Workers: 1}, {BatchSize: 7, Workers: 5, Shuffle: true}, {BatchSize: 50, Workers: 3, Unordered: true},
			{BatchSize: 4, Seed: 1},
		} {
			cfg.Pin, cfg.OnError = e, SkipErrors
			l := newLoader(t, ds, cfg)
			got := make(map[[2]int][2]uint64)
			for range 2 {
				for b, err := range l.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					values := b.Host(0).Data().([]uint64)
					for k, i := range b.Indices {
						got[[2]int{b.Epoch, i}] = [2]uint64(values[2*k:])
					}
				}
			}
			if want == nil {
				want = got
			}
			same := 0
			seen := make(map[uint64]bool)
			for at, v := range got {
				if v == want[at] {
					same++
				}
				if seen[v[0]] || seen[v[1]] || v[0] == v[1] {
					t.Fatal("two samples have the same numbers")
				}
				seen[v[0]], seen[v[1]] = true, true
			}
			if cfg.Seed == 0 && same != 100 || cfg.Seed == 1 && same != 0 {
				t.Errorf("%+v: %d of 100 samples have the numbers of the first loader", cfg, same)
			}
		}
	}
}

// A sample's generator goes on while another worker asks for the first one of a larger batch than before.
func TestRowRandOfAGrowingBatch(t *testing.T) {
	e := newEngine(t)
	first, second := make(chan bool), make(chan bool)
	fields := []Field{{Name: "random", Dtype: tensor.Uint64, Shape: tensor.Shape{2}}}
	ds := FromFunc(3, fields, func(_ context.Context, i int, row Row) error {
		v := Values[uint64](row, 0)
		if i == 2 {
			<-first
			row.Rand()
			close(second)
			return nil
		}
		v[0] = row.Rand().Uint64()
		if i == 1 {
			close(first)
			<-second
		}
		v[1] = row.Rand().Uint64()
		return nil
	})
	l := newLoader(t, ds, Config{BatchSampler: fixedBatches{{0}, {0}, {1, 2}}, Workers: 2, Prefetch: 1, Pin: e})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if v := b.Host(0).Data().([]uint64); v[0] == v[1] {
			t.Errorf("sample %d: its second number is its first again", b.Indices[0])
		}
	}
}
