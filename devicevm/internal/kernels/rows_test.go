package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A softmax with what comes before and after it; rows as wide as can be and less, in fewer blocks than they need.
func TestRows(t *testing.T) { each(t, testRows[float32], testRows[float64]) }

func testRows[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	for _, c := range []struct{ rows, width, blocks int }{{64, 10, 8}, {61, 10, 3}, {1, 1, 1}, {9, 32, 2}, {20, 31, 1}} {
		n := c.rows * c.width
		x, bias, y := random[T](rng, n), random[T](rng, c.width), random[T](rng, n)
		p, dx := make([]T, n), make([]T, n)
		e := expression(t, []Operand{full(t, x), NewOperand(address(t, bias), n, 1, c.rows, c.width), full(t, y)}, []Instruction{
			{Op: Add, X: 0, Y: 1, Keep: 1},
			{Op: RowMax, X: Previous, Y: Previous},
			{Op: Sub, X: Kept, Y: Previous},
			{Op: Exp, X: Previous, Y: Previous, Keep: 1},
			{Op: RowSum, X: Previous, Y: Previous},
			{Op: Div, X: Kept, Y: Previous, Keep: 1, Store: 1},
			{Op: Mul, X: Previous, Y: 2},
			{Op: RowSum, X: Previous, Y: Previous},
			{Op: Sub, X: 2, Y: Previous},
			{Op: Mul, X: Previous, Y: Kept, Store: 2},
		}, address(t, p), address(t, dx))
		run(t, "rows"+suffix[T](), [3]uint32{uint32(c.blocks), 1, 1}, uint32(c.rows), uint32(c.width), e)
		wantP, wantDX := make([]float64, n), make([]float64, n)
		for r := range c.rows {
			sum, dot := 0.0, 0.0
			for i := range c.width {
				sum += math.Exp(float64(x[r*c.width+i]) + float64(bias[i]))
			}
			for i := range c.width {
				at := r*c.width + i
				wantP[at] = math.Exp(float64(x[at])+float64(bias[i])) / sum
				dot += wantP[at] * float64(y[at])
			}
			for i := range c.width {
				at := r*c.width + i
				wantDX[at] = (float64(y[at]) - dot) * wantP[at]
			}
		}
		compare(t, fmt.Sprint(c, " p"), p, wantP)
		compare(t, fmt.Sprint(c, " dx"), dx, wantDX)
	}
}

// A NaN is in its row's maximum and sum, and in no other's.
func TestRowsOfNaN(t *testing.T) { everywhere(t, testRowsOfNaN) }

func testRowsOfNaN(t *testing.T) {
	const rows, width = 5, 7
	x, most, sum := make([]float32, rows*width), make([]float32, rows*width), make([]float32, rows*width)
	x[2*width+3] = float32(math.NaN())
	e := expression(t, []Operand{full(t, x)}, []Instruction{{Op: RowMax, X: 0, Store: 1}, {Op: RowSum, X: 0, Store: 2}}, address(t, most), address(t, sum))
	run(t, "rows_f32", [3]uint32{1, 1, 1}, uint32(rows), uint32(width), e)
	for i := range x {
		if bad := i/width == 2; (most[i] != most[i]) != bad || (sum[i] != sum[i]) != bad {
			t.Errorf("element %d: maximum %v, sum %v", i, most[i], sum[i])
		}
	}
}
