package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestReductions(t *testing.T) { each(t, testReductions[float32], testReductions[float64]) }

func testReductions[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ outer, n, inner, parts int }{
		{1, 1, 1, 1}, {3, 10, 1, 1}, {2, 1000, 1, 3}, {5, 257, 1, 1}, {1, 64, 300, 1}, {2, 65, 3, 4}, {7, 3, 5, 1}, {17, 300, 1, 1}, {3, 2100, 7, 2}, {1, 3000, 33, 1},
	} {
		x := random[T](rng, c.outer*c.n*c.inner)
		part := (c.n + c.parts - 1) / c.parts
		size := c.outer * c.parts * c.inner
		sums, maxima := make([]float64, size), make([]float64, size)
		for i := range maxima {
			maxima[i] = math.Inf(-1)
		}
		for o := range c.outer {
			for i := range c.n {
				for k := range c.inner {
					at, v := (o*c.parts+i/part)*c.inner+k, float64(x[(o*c.n+i)*c.inner+k])
					sums[at] += v
					maxima[at] = max(maxima[at], v)
				}
			}
		}
		for _, k := range []struct {
			rows, columns string
			want          []float64
		}{{"sum_rows", "sum_columns", sums}, {"max_rows", "max_columns", maxima}} {
			got := make([]T, size)
			for _, width := range []int{1, 8, 32} {
				clear(got)
				grid := [3]uint32{uint32(c.outer * c.parts * ((c.inner + width - 1) / width)), 1, 1}
				run(t, k.columns+suffix[T](), grid, x, got, uint32(c.n), uint32(c.inner), uint32(part), uint32(c.parts), uint32(width))
				compare(t, fmt.Sprint(k.columns, c, width), got, k.want)
			}
			if c.inner != 1 {
				continue
			}
			for _, each := range []int{1, 8} {
				clear(got)
				grid := [3]uint32{uint32((size + each - 1) / each), 1, 1}
				run(t, k.rows+suffix[T](), grid, x, got, uint32(c.outer), uint32(c.n), uint32(part), uint32(c.parts), uint32(each))
				compare(t, fmt.Sprint(k.rows, c, each), got, k.want)
			}
		}
	}
}

// A NaN is the maximum, wherever it is.
func TestMaximumOfNaN(t *testing.T) { everywhere(t, testMaximumOfNaN) }

func testMaximumOfNaN(t *testing.T) {
	for _, at := range []int{0, 1, 31, 32, 255, 256, 511, 699} {
		x, got := make([]float32, 700), make([]float32, 1)
		x[at] = float32(math.NaN())
		for _, each := range []uint32{1, 8} {
			got[0] = 0
			run(t, "max_rows_f32", [3]uint32{1, 1, 1}, x, got, uint32(1), uint32(700), uint32(700), uint32(1), each)
			if got[0] == got[0] {
				t.Errorf("NaN at %d: the maximum of the row is %v", at, got[0])
			}
		}
		got[0] = 0
		run(t, "max_columns_f32", [3]uint32{1, 1, 1}, x, got, uint32(700), uint32(1), uint32(700), uint32(1), uint32(1))
		if got[0] == got[0] {
			t.Errorf("NaN at %d: the maximum of the column is %v", at, got[0])
		}
	}
}

func TestSoftmax(t *testing.T) { each(t, testSoftmax[float32], testSoftmax[float64]) }

func testSoftmax[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		outer, n, inner int
		shift           T
	}{{1, 1, 1, 0}, {6, 10, 1, 0}, {27, 10, 1, 0}, {2, 1000, 1, 0}, {2, 257, 1, 0}, {4, 10, 1, 1000}, {4, 10, 1, -1000}, {2, 5, 3, 0}, {1, 300, 2, 0}} {
		lines := c.outer * c.inner
		x, dy := random[T](rng, lines*c.n), random[T](rng, lines*c.n)
		for i := range x {
			x[i] += c.shift
		}
		for log := range uint32(2) {
			y, dx := make([]T, len(x)), make([]T, len(x))
			wantY, wantDX := make([]float64, len(x)), make([]float64, len(x))
			for line := range lines {
				at := func(i int) int { return line/c.inner*c.n*c.inner + line%c.inner + i*c.inner }
				most, sum, dot := math.Inf(-1), 0.0, 0.0
				for i := range c.n {
					most = max(most, float64(x[at(i)]))
				}
				for i := range c.n {
					sum += math.Exp(float64(x[at(i)]) - most)
				}
				for i := range c.n {
					p := math.Exp(float64(x[at(i)])-most) / sum
					wantY[at(i)] = p
					if log == 1 {
						wantY[at(i)] = float64(x[at(i)]) - most - math.Log(sum)
						dot += float64(dy[at(i)])
					} else {
						dot += float64(dy[at(i)]) * p
					}
				}
				for i := range c.n {
					if log == 1 {
						wantDX[at(i)] = float64(dy[at(i)]) - math.Exp(wantY[at(i)])*dot
					} else {
						wantDX[at(i)] = (float64(dy[at(i)]) - dot) * wantY[at(i)]
					}
				}
			}
			for _, each := range []uint32{1, 8} {
				clear(y)
				clear(dx)
				run(t, "softmax"+suffix[T](), [3]uint32{2, 1, 1}, x, y, uint32(lines), uint32(c.n), uint32(c.inner), each, log)
				compare(t, fmt.Sprint("softmax ", c, each, log), y, wantY)
				run(t, "softmax_diff"+suffix[T](), [3]uint32{3, 1, 1}, y, dy, dx, uint32(lines), uint32(c.n), uint32(c.inner), each, log)
				compare(t, fmt.Sprint("softmax_diff ", c, each, log), dx, wantDX)
			}
		}
	}
}

// A NaN or infinity in a row shows in the row, and in no other.
func TestSoftmaxOfNaN(t *testing.T) { everywhere(t, testSoftmaxOfNaN) }

func testSoftmaxOfNaN(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := []float32{0, 1, nan, 2, 3, 4, inf, 5, 6, -inf, 7, 8}
	for _, each := range []uint32{1, 8} {
		y := make([]float32, len(x))
		run(t, "softmax_f32", [3]uint32{4, 1, 1}, x, y, uint32(4), uint32(3), uint32(1), each, uint32(0))
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
}

func TestNotFinite(t *testing.T) { each(t, testNotFinite[float32], testNotFinite[float64]) }

func testNotFinite[T float](t *testing.T) {
	const none = math.MaxUint32
	for _, c := range []struct {
		nans, infs         []int
		nan, inf, together uint32 // what looking for NaN finds, for infinities, for both
	}{
		{nil, nil, none, none, none},
		{[]int{700, 3, 999}, nil, 3, none, 3},
		{[]int{500}, []int{2, 999}, 500, 2, 2},
		{nil, []int{0}, none, 0, 0},
	} {
		x := make([]T, 1000)
		for _, i := range c.nans {
			x[i] = T(math.NaN())
		}
		for k, i := range c.infs {
			x[i] = T(math.Inf(k%2*2 - 1))
		}
		for flags, want := range []uint32{none, c.nan, c.inf, c.together} {
			first := uint32(none)
			run(t, "not_finite"+suffix[T](), [3]uint32{2, 1, 1}, x, uint32(len(x)), &first, uint32(flags&1), uint32(flags>>1))
			if first != want {
				t.Errorf("%+v, looking for %d: %d, want %d", c, flags, first, want)
			}
		}
	}
}
