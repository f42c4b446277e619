package kernels

// This file tests sequences.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

func full[T float](t testing.TB, x []T) Operand {
	return Operand{Data: address(t, x), Reach: Same}
}

// stage adds a stage there is room for.
func (s *Sequence) stage(t testing.TB, stage Stage, operands []Operand, code []Instruction, results ...uint64) {
	t.Helper()
	if !s.Add(stage, expression(t, operands, code, results...)) {
		t.Fatalf("no room for stage %d", s.Stages)
	}
}

// The cross entropy of a layer's sums, with its gradient: of several rows a block, and all by one.
func TestSequence(t *testing.T) { each(t, testSequence[float32], testSequence[float64]) }

func testSequence[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, c := range []struct{ rows, width, each, together int }{
		{1, 1, 1, 8}, {64, 10, 8, 8}, {61, 10, 8, 8}, {61, 12, 5, 8}, {19, 40, 3, 8}, {9, 130, 8, 8}, {5, 300, 2, 1}, {27, 7, 100, 8}, {9, 3, 9, 1},
	} {
		for log := range StageKind(2) {
			n := c.rows * c.width
			sums, bias, y := random[T](rng, n), random[T](rng, c.width), random[T](rng, n)
			logits, p, dp, dx, loss, most := make([]T, n), make([]T, n), make([]T, n), make([]T, n), make([]T, c.rows), make([]T, c.rows)
			picked := make([]T, n)
			rows, width, together := uint32(c.rows), uint32(c.width), uint32(c.together)
			var s Sequence
			s.stage(t, Stage{Kind: Express, Rows: rows, Width: width},
				[]Operand{full(t, sums), NewOperand(address(t, bias), n, 1, c.rows, c.width)}, []Instruction{{Op: Add, X: 0, Y: 1, Store: 1}}, address(t, logits))
			s.stage(t, Stage{Kind: Softmax + log, Rows: rows, Width: width, Together: together}, []Operand{full(t, logits)}, nil, address(t, p))
			s.stage(t, Stage{Kind: Express, Rows: rows, Width: width},
				[]Operand{full(t, p), full(t, y)}, []Instruction{{Op: Mul, X: 0, Y: 1, Store: 2}, {Op: Neg, X: 1, Store: 1}}, address(t, dp), address(t, picked))
			s.stage(t, Stage{Kind: SoftmaxDiff + log, Rows: rows, Width: width, Together: together}, []Operand{full(t, p), full(t, dp)}, nil, address(t, dx))
			s.stage(t, Stage{Kind: SumRows, Rows: rows, Width: width, Together: Threads}, []Operand{full(t, picked)}, nil, address(t, loss))
			s.stage(t, Stage{Kind: MaxRows, Rows: rows, Width: width, Together: together}, []Operand{full(t, logits)}, nil, address(t, most))
			s.Divide(uint32(c.each))
			run(t, "sequence"+suffix[T](), [3]uint32{uint32((c.rows + c.each - 1) / c.each), 1, 1}, &s)

			wantP, wantDX, wantLoss, wantMost := make([]float64, n), make([]float64, n), make([]float64, c.rows), make([]float64, c.rows)
			for r := range c.rows {
				row := func(x []T, i int) float64 { return float64(x[r*c.width+i]) }
				sum, dot := 0.0, 0.0
				wantMost[r] = math.Inf(-1)
				for i := range c.width {
					v := row(sums, i) + float64(bias[i])
					sum += math.Exp(v)
					wantMost[r] = max(wantMost[r], v)
				}
				for i := range c.width {
					at, v := r*c.width+i, row(sums, i)+float64(bias[i])
					wantP[at] = math.Exp(v) / sum
					if log == 1 {
						wantP[at] = v - math.Log(sum)
						dot -= row(y, i)
					} else {
						dot -= row(y, i) * wantP[at]
					}
					wantLoss[r] += wantP[at] * row(y, i)
				}
				for i := range c.width {
					at := r*c.width + i
					if wantDX[at] = (-row(y, i) - dot) * wantP[at]; log == 1 {
						wantDX[at] = -row(y, i) - math.Exp(wantP[at])*dot
					}
				}
			}
			what := fmt.Sprint(c, log)
			compare(t, what+" p", p, wantP)
			compare(t, what+" dx", dx, wantDX)
			compare(t, what+" loss", loss, wantLoss)
			compare(t, what+" most", most, wantMost)
		}
	}
}

// Stages of different numbers of rows, by one block.
func TestSequenceOfSums(t *testing.T) {
	each(t, testSequenceOfSums[float32], testSequenceOfSums[float64])
}

func testSequenceOfSums[T float](t *testing.T) {
	const rows, width = 300, 11
	x := random[T](rand.New(rand.NewPCG(23, 24)), rows*width)
	sums, total, mean := make([]T, rows), make([]T, 1), make([]T, 1)
	count := []T{rows}
	var s Sequence
	s.stage(t, Stage{Kind: SumRows, Rows: rows, Width: width, Together: Threads}, []Operand{full(t, x)}, nil, address(t, sums))
	s.stage(t, Stage{Kind: SumRows, Rows: 1, Width: rows, Together: 1}, []Operand{full(t, sums)}, nil, address(t, total))
	s.stage(t, Stage{Kind: Express, Rows: 1, Width: 1}, []Operand{full(t, total), full(t, count)}, []Instruction{{Op: Div, X: 0, Y: 1, Store: 1}}, address(t, mean))
	s.Divide(math.MaxUint32)
	run(t, "sequence"+suffix[T](), [3]uint32{1, 1, 1}, &s)
	want := 0.0
	for _, v := range x {
		want += float64(v)
	}
	compare(t, "mean", mean, []float64{want / rows})
}

func TestSequenceHasRoom(t *testing.T) {
	leak.Check(t)
	var s Sequence
	e := expression(t, make([]Operand, 3), make([]Instruction, 9), 1, 2)
	for range 6 { // all results that there is room for, two operands fewer
		if !s.Add(Stage{}, e) {
			t.Fatalf("no room for stage %d", s.Stages)
		}
	}
	if s.Add(Stage{}, e) {
		t.Error("room for a stage too many")
	}
	if last := s.Stage[5]; last.Operand != 15 || last.Code != 45 || last.Result != 10 {
		t.Errorf("the last stage is %+v", last)
	}
	s = Sequence{}
	for range MaxStages {
		if !s.Add(Stage{}, &Expression{}) {
			t.Fatalf("no room for stage %d", s.Stages)
		}
	}
	if s.Add(Stage{}, &Expression{}) {
		t.Error("room for a stage too many")
	}
}
