package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

func matrixOf[T float](rng *rand.Rand, n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = T(rng.NormFloat64())
	}
	return v
}

// naive is gemm in float64.
func naive[T float](transA, transB bool, m, n, k int, a, b []T) []float64 {
	c := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for p := range k {
				x, y := a[i*k+p], b[p*n+j]
				if transA {
					x = a[p*m+i]
				}
				if transB {
					y = b[j*k+p]
				}
				c[i*n+j] += float64(x) * float64(y)
			}
		}
	}
	return c
}

func testGemm[T float](t *testing.T, tolerance float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := [][3]int{{5, 33, 300}, {64, 10, 100}, {12, 16, 256}, {13, 15, 257}, {100, 530, 70}, {203, 7, 600}, {97, 513, 40}}
	for m := 5; m <= 13; m++ { // all kinds of edges
		for n := 1; n <= 34; n++ {
			sizes = append(sizes, [3]int{m, n, 9})
		}
	}
	for _, s := range sizes {
		m, n, k := s[0], s[1], s[2]
		for flags := range 4 {
			transA, transB := flags&1 != 0, flags&2 != 0
			a, b := matrixOf[T](rng, m*k), matrixOf[T](rng, k*n)
			want := naive(transA, transB, m, n, k, a, b)
			// Beyond c nothing may be written, and what is in it before does not matter.
			c := slices.Repeat([]T{T(math.NaN())}, m*n)
			c = append(c, slices.Repeat([]T{7}, 64)...)
			gemm(transA, transB, m, n, k, a, b, c[:m*n])
			for i, x := range want {
				if d := math.Abs(float64(c[i]) - x); !(d <= tolerance*math.Sqrt(float64(k))) {
					t.Fatalf("%v, transposed %v %v: element %d is %v, want %v", s, transA, transB, i, c[i], x)
				}
			}
			for i, x := range c[m*n:] {
				if x != 7 {
					t.Fatalf("%v, transposed %v %v: element %d behind the result was written", s, transA, transB, i)
				}
			}
		}
	}
}

func TestGemm(t *testing.T) {
	leak.Check(t)
	t.Run("float32", func(t *testing.T) { testGemm[float32](t, 3e-6) })
	t.Run("float64", func(t *testing.T) { testGemm[float64](t, 1e-14) })
}

func testGemms[T float](t *testing.T, tolerance float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	const products = 5
	for _, s := range [][3]int{{3, 49, 20}, {20, 49, 3}, {32, 9, 784}, {70, 100, 70}} {
		m, n, k := s[0], s[1], s[2]
		for _, steps := range [][3]int{{m * k, k * n, m * n}, {0, k * n, m * n}, {m * k, 0, m * n}, {m * k, k * n, 0}} {
			for flags := range 4 {
				transA, transB := flags&1 != 0, flags&2 != 0
				a, b := matrixOf[T](rng, max(steps[0]*products, m*k)), matrixOf[T](rng, max(steps[1]*products, k*n))
				c := slices.Repeat([]T{T(math.NaN())}, max(steps[2]*products, m*n))
				want := make([]float64, len(c))
				for i := range products {
					for j, x := range naive(transA, transB, m, n, k, a[i*steps[0]:], b[i*steps[1]:]) {
						want[i*steps[2]+j] += x
					}
				}
				gemms(transA, transB, m, n, k, products, steps[0], steps[1], steps[2], a, b, c)
				for i, x := range want {
					if d := math.Abs(float64(c[i]) - x); !(d <= tolerance*math.Sqrt(float64(k*products))) {
						t.Fatalf("%v, steps %v, transposed %v %v: element %d is %v, want %v", s, steps, transA, transB, i, c[i], x)
					}
				}
			}
		}
	}
}

func TestGemms(t *testing.T) {
	leak.Check(t)
	t.Run("float32", func(t *testing.T) { testGemms[float32](t, 3e-6) })
	t.Run("float64", func(t *testing.T) { testGemms[float64](t, 1e-14) })
}

// The number of cores does not change a bit.
func TestGemmIsDeterministic(t *testing.T) {
	leak.Check(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][3]int{{64, 300, 784}, {784, 300, 64}, {61, 1000, 70}} {
		m, n, k := s[0], s[1], s[2]
		a, b := matrixOf[float32](rng, m*k), matrixOf[float32](rng, k*n)
		var first []float32
		for _, cores := range []int{1, 2, 5} {
			before := runtime.GOMAXPROCS(cores)
			c := make([]float32, m*n)
			gemm(false, false, m, n, k, a, b, c)
			runtime.GOMAXPROCS(before)
			if first == nil {
				first = c
			} else if !slices.Equal(c, first) {
				t.Errorf("%v on %d cores differs", s, cores)
			}
		}
	}
}

// Philox4x32-10 of counter and key 0, and of all ones, as in the known answers of its authors.
func TestPhilox(t *testing.T) {
	leak.Check(t)
	ones := uint32(math.MaxUint32)
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%v, %v) is %#x, want %#x", c.counter, c.key, got, c.want)
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, s := range [][3]int{{64, 300, 784}, {300, 784, 64}, {512, 512, 512}} {
		m, n, k := s[0], s[1], s[2]
		x, y, c := matrixOf[float32](rng, m*k), matrixOf[float32](rng, k*n), make([]float32, m*n)
		b.Run(fmt.Sprintf("size=%dx%dx%d", m, n, k), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				gemm(false, false, m, n, k, x, y, c)
			}
			b.ReportMetric(2*float64(m*n*k)/1e9/(b.Elapsed().Seconds()/float64(b.N)), "GFLOPS")
		})
	}
}
