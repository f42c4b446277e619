package kernels

// This file tests expressions of rows.

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
		for log := range Op(2) {
			p, dx := make([]T, n), make([]T, n)
			e := expression(t, []Operand{full(t, x), NewOperand(address(t, bias), n, 1, c.rows, c.width), full(t, y)}, []Instruction{
				{Op: Add, X: 0, Y: 1},
				{Op: RowSoftmax + log, X: Previous, Y: Previous, Keep: 1, Store: 1},
				{Op: Neg, X: 2},
				{Op: RowSoftmaxDiff + log, X: Previous, Y: Kept, Store: 2},
			}, address(t, p), address(t, dx))
			run(t, "rows"+suffix[T](), [3]uint32{uint32(c.blocks), 1, 1}, uint32(c.rows), uint32(c.width), e)
			wantP, wantDX := make([]float64, n), make([]float64, n)
			for r := range c.rows {
				sum, dot, all := 0.0, 0.0, 0.0
				for i := range c.width {
					sum += math.Exp(float64(x[r*c.width+i]) + float64(bias[i]))
				}
				for i := range c.width {
					at := r*c.width + i
					v := float64(x[at]) + float64(bias[i])
					dot -= math.Exp(v) / sum * float64(y[at])
					all -= float64(y[at])
					if wantP[at] = math.Exp(v) / sum; log == 1 {
						wantP[at] = v - math.Log(sum)
					}
				}
				for i := range c.width {
					at := r*c.width + i
					if wantDX[at] = (-float64(y[at]) - dot) * wantP[at]; log == 1 {
						wantDX[at] = -float64(y[at]) - math.Exp(wantP[at])*all
					}
				}
			}
			compare(t, fmt.Sprint(c, log, " p"), p, wantP)
			compare(t, fmt.Sprint(c, log, " dx"), dx, wantDX)
		}
	}
}

// A NaN or infinity in a row shows in all of the row, and in no other.
func TestRowsOfNaN(t *testing.T) { everywhere(t, testRowsOfNaN) }

func testRowsOfNaN(t *testing.T) {
	const rows, width = 5, 7
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		x, p, dx := make([]float32, rows*width), make([]float32, rows*width), make([]float32, rows*width)
		x[2*width+3] = float32(bad)
		e := expression(t, []Operand{full(t, x)}, []Instruction{
			{Op: RowSoftmax, X: 0, Store: 1}, {Op: RowSoftmaxDiff, X: 0, Y: Previous, Store: 2},
		}, address(t, p), address(t, dx))
		run(t, "rows_f32", [3]uint32{1, 1, 1}, uint32(rows), uint32(width), e)
		for i := range x {
			if bad := i/width == 2; (p[i] != p[i]) != bad || (dx[i] != dx[i]) != bad {
				t.Errorf("element %d: %v, differential %v", i, p[i], dx[i])
			}
		}
	}
}
