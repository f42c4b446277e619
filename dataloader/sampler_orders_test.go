package dataloader

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

// must fails the test of a constructor that should not fail.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// places returns an epoch of a sampler, and checks that its bulk form says the same.
func places(t testing.TB, s Sampler, epoch int) []int {
	t.Helper()
	got := make([]int, s.Len())
	for k := range got {
		got[k] = s.Index(epoch, k)
	}
	if bulk, ok := s.(bulkSampler); ok {
		for start, step := range map[int]int{0: 1, 1: 1, 2: 3} {
			dst := make([]int, max((len(got)-start+step-1)/step, 0))
			bulk.indices(epoch, start, step, dst)
			for i := range dst {
				if want := got[start+i*step]; dst[i] != want {
					t.Fatalf("%T: places from %d in steps of %d: %d at %d, want %d", s, start, step, dst[i], i, want)
				}
			}
		}
	}
	return got
}

// batchesOf returns an epoch of a batch sampler, asked for backwards to find those that keep count.
func batchesOf(s BatchSampler, epoch int) [][]int {
	got := make([][]int, s.Len(epoch))
	for b := range slices.Backward(got) {
		got[b] = s.Batch(epoch, b, nil)
	}
	return got
}

func TestSamplersOfEachSampleOnce(t *testing.T) {
	leak.Check(t)
	for _, n := range []int{0, 1, 2, 7, 1024, 1025, 3000} {
		some := make([]int, n)
		for i := range some {
			some[i] = 3*i + 5
		}
		if got := places(t, must[Sampler](t)(Sequential(n)), 1); !slices.Equal(got, numbers(n)) {
			t.Errorf("Sequential(%d): %v", n, got)
		}
		if got := places(t, must[Sampler](t)(FromIndices(some)), 1); !slices.Equal(got, some) {
			t.Errorf("FromIndices: %v, want %v", got, some)
		}
		for want, s := range map[*[]int]Sampler{
			{0}: must[Sampler](t)(Random(n, 3)),
			{1}: must[Sampler](t)(SubsetRandom(some, 3)),
		} {
			whole := numbers(n)
			if (*want)[0] == 1 {
				whole = some
			}
			first, second := places(t, s, 0), places(t, s, 1)
			if n > 5 && (slices.Equal(first, second) || slices.IsSorted(first)) {
				t.Errorf("%T of %d: epochs %v and %v", s, n, first, second)
			}
			if !slices.Equal(first, places(t, s, 0)) {
				t.Errorf("%T of %d: epoch 0 is not repeatable", s, n)
			}
			slices.Sort(first)
			if !slices.Equal(first, whole) {
				t.Errorf("%T of %d: not each sample once: %v", s, n, first)
			}
		}
	}
}

// A Loader's own shuffle is Random with the same seed.
func TestRandomIsConfigShuffle(t *testing.T) {
	e := newEngine(t)
	own := newLoader(t, counting(50), Config{BatchSize: 8, Shuffle: true, Seed: 9, Pin: e})
	given := newLoader(t, counting(50), Config{BatchSize: 8, Sampler: must[Sampler](t)(Random(50, 9)), Pin: e})
	for range 2 {
		if a, b := epoch(t, own), epoch(t, given); !slices.EqualFunc(a, b, slices.Equal) {
			t.Errorf("%v and %v", a, b)
		}
	}
}

func TestFromIndicesKeepsACopy(t *testing.T) {
	leak.Check(t)
	indices := []int{1, 2, 3}
	a, b := must[Sampler](t)(FromIndices(indices)), must[Sampler](t)(SubsetRandom(indices, 1))
	want := places(t, b, 0)
	clear(indices)
	if got := places(t, a, 0); !slices.Equal(got, []int{1, 2, 3}) {
		t.Error(got)
	}
	if got := places(t, b, 0); !slices.Equal(got, want) {
		t.Error(got)
	}
}

func TestRandomWithReplacementIsUniform(t *testing.T) {
	leak.Check(t)
	const n, draws = 50, 50_000
	s := must[Sampler](t)(RandomWithReplacement(n, draws, 4))
	counts, pairs := make([]int, n), make([]int, n*n)
	got := places(t, s, 3)
	for k, i := range got {
		counts[i]++
		pairs[i*n+got[(k+1)%draws]]++
	}
	for name, c := range map[string][]int{"samples": counts, "pairs": pairs} {
		if z := chiSquared(c); math.Abs(z) > sigmas {
			t.Errorf("%s are off by %.1f sigma", name, z)
		}
	}
	if slices.Equal(got, places(t, s, 4)) {
		t.Error("two epochs are the same")
	}
	if got := places(t, must[Sampler](t)(RandomWithReplacement(0, 0, 0)), 0); len(got) != 0 {
		t.Error(got)
	}
}

func TestBatchedIsConsecutivePlaces(t *testing.T) {
	leak.Check(t)
	for n := range 12 {
		for size := 1; size < 6; size++ {
			for _, drop := range []bool{false, true} {
				for _, s := range []Sampler{fixedSampler(rand.New(rand.NewPCG(1, 2)).Perm(n)), must[Sampler](t)(Random(n, 5))} {
					want := slices.Collect(slices.Chunk(places(t, s, 2), size))
					if drop && n%size > 0 {
						want = want[:len(want)-1]
					}
					got := batchesOf(must[BatchSampler](t)(Batched(s, size, drop)), 2)
					if !slices.EqualFunc(got, want, slices.Equal) {
						t.Errorf("%d samples by %d, drop %v: %v, want %v", n, size, drop, got, want)
					}
				}
			}
		}
	}
}

// Batch appends to what it is given, as its callers may have something there.
func TestBatchSamplersAppend(t *testing.T) {
	leak.Check(t)
	for _, s := range []BatchSampler{
		must[BatchSampler](t)(Batched(fixedSampler{4, 5}, 2, false)),
		must[BatchSampler](t)(Batched(sequential(2), 2, false)),
		must[BatchSampler](t)(Bucketed([]int{1, 1}, Buckets{BatchSize: 2})),
		must[BatchSampler](t)(Bucketed([]int{1, 1}, Buckets{BatchSize: 2, Shuffle: true})),
	} {
		if got := s.Batch(0, 0, []int{77}); len(got) != 3 || got[0] != 77 {
			t.Errorf("%T: %v", s, got)
		}
		dst := make([]int, 0, 2)
		if n := testing.AllocsPerRun(20, func() { s.Batch(0, 0, dst) }); n != 0 {
			t.Errorf("%T: %v allocations a batch", s, n)
		}
	}
}

func TestBucketedHasEachSampleOnce(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(r *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 300).Draw(r, "lengths")
		b := Buckets{
			BatchSize: rapid.IntRange(0, 20).Draw(r, "size"), MaxTokens: rapid.SampledFrom([]int{0, 40, 64, 500}).Draw(r, "tokens"),
			Multiple: rapid.SampledFrom([]int{0, 1, 8}).Draw(r, "multiple"), Shuffle: rapid.Bool().Draw(r, "shuffle"),
			Seed: rapid.Uint64().Draw(r, "seed"), DropLast: rapid.Bool().Draw(r, "drop"),
			Boundaries: rapid.SampledFrom([][]int{nil, {}, {5}, {5, 10, 40}}).Draw(r, "boundaries"),
		}
		if b.BatchSize == 0 && b.MaxTokens == 0 {
			b.BatchSize = 1
		}
		s, err := Bucketed(lengths, b)
		if err != nil {
			r.Fatal(err)
		}
		seen := make(map[int]bool)
		for _, batch := range batchesOf(s, rapid.IntRange(0, 5).Draw(r, "epoch")) {
			longest, shortest := 0, maxInt
			for _, i := range batch {
				if seen[i] {
					r.Fatalf("sample %d twice", i)
				}
				seen[i] = true
				longest, shortest = max(longest, b.padded(lengths[i])), min(shortest, lengths[i])
			}
			if len(batch) == 0 {
				r.Fatal("a batch without samples")
			}
			if b.BatchSize > 0 && len(batch) > b.BatchSize || b.MaxTokens > 0 && len(batch)*longest > b.MaxTokens {
				r.Fatalf("a batch of %d samples of up to %d elements", len(batch), longest)
			}
			for _, bound := range b.Boundaries {
				if shortest <= bound && longest > b.padded(bound) {
					r.Fatalf("lengths from %d to %d in one batch, boundaries %v", shortest, longest, b.Boundaries)
				}
			}
		}
		if !b.DropLast && len(seen) != len(lengths) {
			r.Fatalf("%d of %d samples", len(seen), len(lengths))
		}
		if b.DropLast && b.Boundaries == nil && b.MaxTokens == 0 && len(seen) != len(lengths)/b.BatchSize*b.BatchSize {
			r.Fatalf("%d of %d samples with DropLast in batches of %d", len(seen), len(lengths), b.BatchSize)
		}
	})
}

// textLengths are lengths as texts have them: most short, few long.
func textLengths(n int) []int {
	gen := rand.New(rand.NewPCG(7, 7))
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = min(int(math.Exp(gen.NormFloat64()*0.8+4)), 2000)
	}
	return lengths
}

// What bucketing is for: batches cost little more than their samples, and yet are mixed anew each epoch.
func TestBucketedPadsLittleAndMixes(t *testing.T) {
	leak.Check(t)
	lengths := textLengths(20_000)
	sum := 0
	for _, n := range lengths {
		sum += n
	}
	cost := func(batches [][]int) float64 {
		padded := 0
		for _, batch := range batches {
			longest := 0
			for _, i := range batch {
				longest = max(longest, lengths[i])
			}
			padded += longest * len(batch)
		}
		return float64(padded) / float64(sum)
	}
	plain := cost(batchesOf(must[BatchSampler](t)(Batched(must[Sampler](t)(Random(len(lengths), 1)), 32, false)), 0))
	for name, b := range map[string]Buckets{
		"by size":   {BatchSize: 32, Shuffle: true},
		"by tokens": {MaxTokens: 8192, Shuffle: true},
	} {
		s := must[BatchSampler](t)(Bucketed(lengths, b))
		first, second := batchesOf(s, 0), batchesOf(s, 1)
		if c := cost(first); c > 1.15 || c > plain/2 {
			t.Errorf("%s: padded batches are %.2f of their samples, without buckets %.2f", name, c, plain)
		}
		// Of two that share a batch in one epoch few do in the next.
		at := make(map[int]int)
		for b, batch := range second {
			for _, i := range batch {
				at[i] = b
			}
		}
		again, pairs := 0, 0
		for _, batch := range first {
			for k := range len(batch) - 1 {
				pairs++
				if at[batch[k]] == at[batch[k+1]] {
					again++
				}
			}
		}
		if share := float64(again) / float64(pairs); share > 0.25 {
			t.Errorf("%s: %.0f %% of neighbours stay together", name, 100*share)
		}
		// Long batches must not come together: their order is shuffled too.
		half := 0
		for _, batch := range first[:len(first)/2] {
			half += len(batch)
		}
		if share := float64(half) / float64(len(lengths)); share < 0.45 || share > 0.55 {
			t.Errorf("%s: the first half of the batches has %.0f %% of the samples", name, 100*share)
		}
	}
}

func TestBucketedWithoutShuffleIsLongestFirst(t *testing.T) {
	leak.Check(t)
	s := must[BatchSampler](t)(Bucketed([]int{3, 1, 9, 3, 2, 9, 1}, Buckets{BatchSize: 2}))
	if got, want := batchesOf(s, 0), [][]int{{2, 5}, {0, 3}, {4, 1}, {6}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
	s = must[BatchSampler](t)(Bucketed([]int{3, 1, 9, 3, 2, 9, 1}, Buckets{MaxTokens: 12, Boundaries: []int{2, 4}}))
	if got, want := batchesOf(s, 0), [][]int{{2}, {5}, {0, 3}, {4, 1, 6}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSamplersRefuse(t *testing.T) {
	leak.Check(t)
	for want, call := range map[string]func() error{
		"Sequential: n = -1: want >= 0":                       func() error { _, err := Sequential(-1); return err },
		"Random: n = -1: want >= 0":                           func() error { _, err := Random(-1, 0); return err },
		"RandomWithReplacement: draws = -1: want >= 0":        func() error { _, err := RandomWithReplacement(1, -1, 0); return err },
		"RandomWithReplacement: n = 0: want at least one":     func() error { _, err := RandomWithReplacement(0, 1, 0); return err },
		"RandomWithReplacement: n = -2: want at least one":    func() error { _, err := RandomWithReplacement(-2, 0, 0); return err },
		"FromIndices: indices[1] = -7: want >= 0":             func() error { _, err := FromIndices([]int{0, -7}); return err },
		"SubsetRandom: indices[0] = -7: want >= 0":            func() error { _, err := SubsetRandom([]int{-7}, 0); return err },
		"Batched: s is nil":                                   func() error { _, err := Batched(nil, 1, false); return err },
		"Batched: batchSize = 0: want > 0":                    func() error { _, err := Batched(fixedSampler{}, 0, false); return err },
		"Batched: s.Len() = -1: want >= 0":                    func() error { _, err := Batched(sequential(-1), 1, false); return err },
		"Buckets.BatchSize and MaxTokens are 0":               func() error { _, err := Bucketed(nil, Buckets{}); return err },
		"Buckets.BatchSize = -1: want >= 0":                   func() error { _, err := Bucketed(nil, Buckets{BatchSize: -1}); return err },
		"Buckets.MaxTokens = -1: want >= 0":                   func() error { _, err := Bucketed(nil, Buckets{MaxTokens: -1}); return err },
		"Buckets.Multiple = -1: want >= 0":                    func() error { _, err := Bucketed(nil, Buckets{BatchSize: 1, Multiple: -1}); return err },
		"lengths[1] = -3: want >= 0":                          func() error { _, err := Bucketed([]int{1, -3}, Buckets{BatchSize: 1}); return err },
		"lengths[1] = 9: want at most Buckets.MaxTokens, 8":   func() error { _, err := Bucketed([]int{1, 9}, Buckets{MaxTokens: 8}); return err },
		"lengths[0] = 9: want at most Buckets.MaxTokens, 10,": func() error { _, err := Bucketed([]int{9}, Buckets{MaxTokens: 10, Multiple: 8}); return err },
		"Buckets.Boundaries[1] = 3: want ascending":           func() error { _, err := Bucketed(nil, Buckets{BatchSize: 1, Boundaries: []int{3, 3}}); return err },
		"Buckets.Boundaries[0] = 0: want ascending":           func() error { _, err := Bucketed(nil, Buckets{BatchSize: 1, Boundaries: []int{0}}); return err },
		"Buckets.Boundaries[0] = 9: want at most MaxTokens, 8": func() error {
			_, err := Bucketed([]int{4}, Buckets{MaxTokens: 8, Boundaries: []int{9}})
			return err
		},
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), "dataloader: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A loader over buckets delivers them, to one rank or several.
func TestLoaderWithBuckets(t *testing.T) {
	e := newEngine(t)
	lengths := textLengths(200)
	s := must[BatchSampler](t)(Bucketed(lengths, Buckets{MaxTokens: 4096, Shuffle: true, Seed: 3}))
	var all []int
	for rank := range 2 {
		l := newLoader(t, counting(200), Config{BatchSampler: s, Rank: rank, WorldSize: 2, Workers: 3, Pin: e})
		all = append(all, flat(epoch(t, l))...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); !slices.Equal(all, numbers(200)) {
		t.Errorf("samples %v", all)
	}
}

// BenchmarkWeighted is what tens of millions of weights cost to prepare, and to draw from.
func BenchmarkWeighted(b *testing.B) {
	for _, n := range []int{1000, 1_000_000, 10_000_000} {
		weights := make([]float64, n)
		gen := rand.New(rand.NewPCG(1, 2))
		for i := range weights {
			weights[i] = gen.ExpFloat64()
		}
		b.Run(fmt.Sprintf("make/weights=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Weighted(weights, n, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/weight")
		})
		s, err := Weighted(weights, n, 1)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("draw/weights=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]int, 256)
			k := 0
			for b.Loop() {
				s.(bulkSampler).indices(0, k, 1, dst)
				k += len(dst)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(k), "ns/draw")
		})
	}
}

// BenchmarkBucketed is what sorting a million lengths costs once, and a batch then.
func BenchmarkBucketed(b *testing.B) {
	lengths := textLengths(1_000_000)
	cfg := Buckets{MaxTokens: 1 << 16, Shuffle: true}
	b.Run("make/samples=1M", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Bucketed(lengths, cfg); err != nil {
				b.Fatal(err)
			}
		}
	})
	s, err := Bucketed(lengths, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("batch/samples=1M", func(b *testing.B) {
		b.ReportAllocs()
		var dst []int
		samples, k := 0, 0
		for b.Loop() {
			dst = s.Batch(0, k%s.Len(0), dst[:0])
			samples += len(dst)
			k++
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(samples), "ns/sample")
	})
}
