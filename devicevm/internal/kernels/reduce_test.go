package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestSums(t *testing.T) { each(t, testSums[float32], testSums[float64]) }

func testSums[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ outer, n, inner, parts int }{
		{1, 1, 1, 1}, {3, 10, 1, 1}, {2, 1000, 1, 3}, {5, 257, 1, 1}, {1, 64, 300, 1}, {2, 65, 3, 4}, {7, 3, 5, 1},
	} {
		x := random[T](rng, c.outer*c.n*c.inner)
		part := (c.n + c.parts - 1) / c.parts
		got, want := make([]T, c.outer*c.parts*c.inner), make([]float64, c.outer*c.parts*c.inner)
		for o := range c.outer {
			for i := range c.n {
				for k := range c.inner {
					want[(o*c.parts+i/part)*c.inner+k] += float64(x[(o*c.n+i)*c.inner+k])
				}
			}
		}
		run(t, "sum_columns"+suffix[T](), [3]uint32{2, 1, 1}, x, got, uint32(c.n), uint32(c.inner), uint32(part), uint32(c.parts), uint32(c.outer))
		compare(t, fmt.Sprint("columns ", c), got, want)
		if c.inner > 1 {
			continue
		}
		clear(got)
		run(t, "sum_rows"+suffix[T](), [3]uint32{uint32(c.outer * c.parts), 1, 1}, x, got, uint32(c.n), uint32(part), uint32(c.parts), T(0.25))
		for i := range want {
			want[i] *= 0.25
		}
		compare(t, fmt.Sprint("rows ", c), got, want)
	}
}

func TestSoftmax(t *testing.T) { each(t, testSoftmax[float32], testSoftmax[float64]) }

func testSoftmax[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		rows, n int
		shift   T
	}{{1, 1, 0}, {6, 10, 0}, {2, 1000, 0}, {3, 257, 0}, {4, 10, 1000}, {4, 10, -1000}} {
		x, dy := random[T](rng, c.rows*c.n), random[T](rng, c.rows*c.n)
		for i := range x {
			x[i] += c.shift
		}
		for log := range uint32(2) {
			y, dx := make([]T, len(x)), make([]T, len(x))
			wantY, wantDX := make([]float64, len(x)), make([]float64, len(x))
			for r := range c.rows {
				most, sum := math.Inf(-1), 0.0
				for i := r * c.n; i < (r+1)*c.n; i++ {
					most = max(most, float64(x[i]))
				}
				for i := r * c.n; i < (r+1)*c.n; i++ {
					sum += math.Exp(float64(x[i]) - most)
				}
				dot := 0.0
				for i := r * c.n; i < (r+1)*c.n; i++ {
					p := math.Exp(float64(x[i])-most) / sum
					wantY[i] = p
					if log == 1 {
						wantY[i] = float64(x[i]) - most - math.Log(sum)
						dot += float64(dy[i])
					} else {
						dot += float64(dy[i]) * p
					}
				}
				for i := r * c.n; i < (r+1)*c.n; i++ {
					if log == 1 {
						wantDX[i] = float64(dy[i]) - math.Exp(wantY[i])*dot
					} else {
						wantDX[i] = (float64(dy[i]) - dot) * wantY[i]
					}
				}
			}
			run(t, "softmax"+suffix[T](), [3]uint32{2, 1, 1}, x, y, uint32(c.rows), uint32(c.n), log)
			compare(t, fmt.Sprint("softmax ", c, log), y, wantY)
			run(t, "softmax_diff"+suffix[T](), [3]uint32{3, 1, 1}, y, dy, dx, uint32(c.rows), uint32(c.n), log)
			compare(t, fmt.Sprint("softmax_diff ", c, log), dx, wantDX)
		}
	}
}

// A NaN or infinity in a row shows in the row, and in no other.
func TestSoftmaxOfNaN(t *testing.T) { everywhere(t, testSoftmaxOfNaN) }

func testSoftmaxOfNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := []float32{0, 1, nan, 2, 3, 4, inf, 5, 6, -inf, 7, 8}
	y := make([]float32, len(x))
	run(t, "softmax_f32", [3]uint32{4, 1, 1}, x, y, uint32(4), uint32(3), uint32(0))
	for r := range 4 {
		bad := 0
		for _, v := range y[3*r : 3*r+3] {
			if v != v {
				bad++
			}
		}
		if want := []int{3, 0, 3, 0}[r]; (bad > 0) != (want > 0) {
			t.Errorf("row %d: %v", r, y[3*r:3*r+3])
		}
	}
}

func TestNotFinite(t *testing.T) { each(t, testNotFinite[float32], testNotFinite[float64]) }

func testNotFinite[T float](t *testing.T) {
	for _, c := range []struct {
		at   []int
		v    float64
		want uint32
	}{{nil, 0, math.MaxUint32}, {[]int{700, 3, 999}, math.NaN(), 3}, {[]int{999}, math.Inf(1), 999}, {[]int{0}, math.Inf(-1), 0}} {
		x := make([]T, 1000)
		for _, i := range c.at {
			x[i] = T(c.v)
		}
		first := uint32(math.MaxUint32)
		run(t, "not_finite"+suffix[T](), [3]uint32{2, 1, 1}, x, uint32(len(x)), &first)
		if first != c.want {
			t.Errorf("%v at %v: %d, want %d", c.v, c.at, first, c.want)
		}
	}
}
