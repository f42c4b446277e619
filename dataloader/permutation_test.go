package dataloader

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

func orderOf(n int, seed uint64, epoch int) []int {
	p := newPermutation(n, seed)
	got := make([]int, n)
	for k := range got {
		got[k] = p.order(epoch).at(uint64(n), uint64(k))
	}
	return got
}

func TestPermutationHasEachIndexOnce(t *testing.T) {
	leak.Check(t)
	lengths := []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1023, 1024, 1025, 1500, 2047, 2048, 2049, 4096, 5000, 65536, 65537, 100003}
	for _, n := range lengths {
		for epoch := range 3 {
			got := orderOf(n, 42, epoch)
			slices.Sort(got)
			for i, v := range got {
				if v != i {
					t.Fatalf("n = %d, epoch %d: sorted order has %d at %d", n, epoch, v, i)
				}
			}
		}
	}
}

// Many places at once are the same as each by itself.
func TestPermutationFill(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 3000), rapid.IntRange(1, 1<<22), rapid.IntRange(1, 1<<50)).Draw(t, "n")
		step := rapid.IntRange(1, 9).Draw(t, "step")
		start := rapid.IntRange(0, n-1).Draw(t, "start")
		dst := make([]int, min(rapid.IntRange(0, 300).Draw(t, "places"), (n-1-start)/step+1))
		o := newEpochOrder(n, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 5).Draw(t, "epoch"))
		o.fill(uint64(n), start, step, dst)
		for i, got := range dst {
			if want := o.at(uint64(n), uint64(start+i*step)); got != want {
				t.Fatalf("place %d: %d, want %d", start+i*step, got, want)
			}
		}
	})
}

// The inverse of the network shows that it is a bijection where its domain is too large to try out.
func TestPermutationOfHugeLengthsIsInvertible(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(tableLen+1, math.MaxInt64).Draw(t, "n")
		k := rapid.Uint64Range(0, n-1).Draw(t, "k")
		o := newEpochOrder(int(n), rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1<<40).Draw(t, "epoch"))
		x := uint64(o.at(n, k))
		if x >= n {
			t.Fatalf("at(%d) = %d, n is %d", k, x, n)
		}
		for {
			hi, lo := x>>o.lowBits, x&o.lowMask
			for i := rounds - 2; i >= 0; i -= 2 {
				lo ^= scramble(hi, o.keys[i+1]) & o.lowMask
				hi ^= scramble(lo, o.keys[i]) & o.hiMask
			}
			if x = hi<<o.lowBits | lo; x < n {
				break
			}
		}
		if x != k {
			t.Fatalf("inverse of at(%d) = %d", k, x)
		}
	})
}

func TestPermutationWalksFewSteps(t *testing.T) {
	leak.Check(t)
	// Just above a power of two is the worst length: nearly half of the network's values are too large.
	const n = 1<<16 + 1
	o := newEpochOrder(n, 7, 0)
	steps := 0
	for k := range uint64(n) {
		for x := o.encrypt(k); ; x = o.encrypt(x) {
			steps++
			if x < n {
				break
			}
		}
	}
	if mean := float64(steps) / n; mean > 2.05 {
		t.Errorf("%.2f steps a place, want at most 2", mean)
	}
}

// chiSquared returns how many standard deviations the statistic of counts is above its mean, were
// they equally likely.
func chiSquared(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want := float64(total) / float64(len(counts))
	sum := 0.0
	for _, c := range counts {
		sum += (float64(c) - want) * (float64(c) - want) / want
	}
	free := float64(len(counts) - 1)
	return (sum - free) / math.Sqrt(2*free)
}

// sigmas is above what a good permutation shows once in ten thousand runs; seeds are fixed, so that a
// test that passes always does.
const sigmas = 4.5

func TestPermutationSmallIsUniformOverAllOrders(t *testing.T) {
	leak.Check(t)
	const n = 5
	counts := make([]int, 3125)
	for epoch := range 120 * 100 {
		code := 0
		for _, v := range orderOf(n, 3, epoch) {
			code = code*n + v
		}
		counts[code]++
	}
	counts = slices.DeleteFunc(counts, func(c int) bool { return c == 0 })
	if len(counts) != 120 {
		t.Fatalf("%d of 120 orders came up", len(counts))
	}
	if z := chiSquared(counts); math.Abs(z) > sigmas {
		t.Errorf("orders are off by %.1f sigma", z)
	}
}

// Where a place goes, and where two neighbours go, must be uniform over epochs and over seeds.
func TestPermutationPositionsAndPairsAreUniform(t *testing.T) {
	leak.Check(t)
	const cells, draws = 32, 40000
	for _, n := range []int{tableLen, tableLen + 1, 2048, 3000, 60000, 1 << 20, 1<<30 + 7, 1 << 40} {
		for _, k := range []int{0, 1, n / 2, n - 2} {
			for _, vary := range []string{"epoch", "seed"} {
				place, pair, step := make([]int, cells), make([]int, cells*cells), make([]int, cells)
				for i := range draws {
					seed, epoch := uint64(i), 0
					if vary == "epoch" {
						seed, epoch = 11, i
					}
					if n == tableLen && i >= 4000 {
						break // tables cost more to make
					}
					o := newEpochOrder(n, seed, epoch)
					a, b := o.at(uint64(n), uint64(k)), o.at(uint64(n), uint64(k+1))
					place[cell(a, n, cells)]++
					pair[cell(a, n, cells)*cells+cell(b, n, cells)]++
					step[cell((b-a+n)%n, n, cells)]++
				}
				for name, counts := range map[string][]int{"places": place, "pairs": pair, "steps": step} {
					if z := chiSquared(counts); math.Abs(z) > sigmas {
						t.Errorf("n = %d, k = %d, by %s: %s are off by %.1f sigma", n, k, vary, name, z)
					}
				}
			}
		}
	}
}

func cell(v, n, cells int) int {
	hi, lo := bits.Mul64(uint64(v), uint64(cells))
	q, _ := bits.Div64(hi, lo, uint64(n))
	return int(q)
}

// Within one order: neighbours, and low bits, must not be related.
func TestPermutationOneOrderLooksRandom(t *testing.T) {
	leak.Check(t)
	const cells = 32
	for _, n := range []int{4096, 60000, 1<<17 + 3} {
		for epoch := range 8 {
			order := orderOf(n, 5, epoch)
			steps, low, blocks := make([]int, cells), make([]int, 64), make([]int, cells*cells)
			for k := range n - 1 {
				a, b := order[k], order[k+1]
				steps[cell((b-a+n)%n, n, cells)]++
				low[a&7|b&7<<3]++
				blocks[cell(k, n, cells)*cells+cell(a, n, cells)]++
			}
			for name, counts := range map[string][]int{"steps": steps, "low bits": low} {
				if z := chiSquared(counts); math.Abs(z) > sigmas {
					t.Errorf("n = %d, epoch %d: %s are off by %.1f sigma", n, epoch, name, z)
				}
			}
			// Sampling without replacement makes blocks a little more even than independent draws.
			if z := chiSquared(blocks); z > sigmas || z < -sigmas {
				t.Errorf("n = %d, epoch %d: blocks are off by %.1f sigma", n, epoch, z)
			}
		}
	}
}

func TestPermutationFixedPointsBetweenEpochs(t *testing.T) {
	leak.Check(t)
	// The number of places that keep their sample from one epoch to the next is Poisson with mean 1.
	for _, n := range []int{100, 5000} {
		same := 0
		for epoch := range 400 {
			a, b := orderOf(n, 9, epoch), orderOf(n, 9, epoch+1)
			for k := range a {
				if a[k] == b[k] {
					same++
				}
			}
		}
		if mean := float64(same) / 400; math.Abs(mean-1) > 0.25 {
			t.Errorf("n = %d: %.2f places keep their sample, want about 1", n, mean)
		}
	}
}

// Each bit of the seed and of the epoch changes about half of the bits of where a place goes.
func TestPermutationAvalanche(t *testing.T) {
	leak.Check(t)
	const n, word = 1 << 32, 32
	gen := rand.New(rand.NewPCG(1, 2))
	for bit := range 64 {
		flips, tries := 0, 0
		for range 400 {
			seed, epoch, k := gen.Uint64(), int(gen.Uint64()>>2), gen.Uint64N(n)
			a := newEpochOrder(n, seed, epoch).at(n, k)
			b := newEpochOrder(n, seed^1<<bit, epoch).at(n, k)
			c := newEpochOrder(n, seed, epoch^1<<(bit%62)).at(n, k)
			flips += bits.OnesCount(uint(a^b)) + bits.OnesCount(uint(a^c))
			tries += 2 * word
		}
		if share := float64(flips) / float64(tries); math.Abs(share-0.5) > 0.02 {
			t.Errorf("bit %d of seed or epoch changes %.3f of the bits", bit, share)
		}
	}
}

// What an order is must not change between versions without notice: checkpoints rely on it.
func TestPermutationIsStable(t *testing.T) {
	leak.Check(t)
	if got, want := orderOf(8, 1, 0), []int{1, 5, 4, 0, 2, 6, 7, 3}; !slices.Equal(got, want) {
		t.Errorf("order of 8: %v, want %v", got, want)
	}
	p := newPermutation(1_000_000, 1)
	var got []int
	for k := range 5 {
		got = append(got, p.order(3).at(1_000_000, uint64(k)))
	}
	if want := []int{675032, 751796, 406663, 539326, 464352}; !slices.Equal(got, want) {
		t.Errorf("order of a million: %v, want %v", got, want)
	}
}

func TestPermutationTakesNoMemoryPerSample(t *testing.T) {
	leak.Check(t)
	s := shuffled{newPermutation(1<<40, 1)}
	s.Index(0, 0)
	if n := testing.AllocsPerRun(100, func() { s.Index(0, 12345) }); n != 0 {
		t.Errorf("%v allocations a place", n)
	}
}

func BenchmarkPermutation(b *testing.B) {
	for _, bench := range []struct {
		name string
		n    int
	}{{"n=1000", 1000}, {"n=60000", 60000}, {"n=1Mi", 1 << 20}, {"n=1Ti", 1 << 40}} {
		b.Run(bench.name, func(b *testing.B) {
			s := shuffled{newPermutation(bench.n, 1)}
			dst := make([]int, 256)
			b.ReportAllocs()
			for b.Loop() {
				s.indices(0, 100, 1, dst)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/place")
		})
	}
}
