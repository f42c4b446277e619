package kernels

// This file tests brief expressions.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

// Brief expressions, by kernels and by what their instructions say: all there are of one or two instructions.
func TestBriefly(t *testing.T) { each(t, testBriefly[float32], testBriefly[float64]) }

func testBriefly[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	places := []uint32{0, 1, Previous}
	var codes [][]Instruction
	for _, first := range []Op{Add, Mask, Copy, Mul} {
		for _, x := range places {
			for _, y := range places {
				one := Instruction{Op: first, X: x, Y: y, Store: 1}
				codes = append(codes, []Instruction{one})
				for _, last := range []Op{Add, Mask} {
					for _, y := range places {
						for _, store := range []uint32{0, 2} {
							one.Store = store
							codes = append(codes, []Instruction{one, {Op: last, X: Previous, Y: y, Store: 1}})
						}
					}
				}
			}
		}
	}
	found := map[uint32]int{}
	for _, n := range []int{8, 7} {
		a, b := random[T](rng, n), random[T](rng, n)
		for _, code := range codes {
			for operands := range 3 {
				e, ok := expressionOf(t, code, [][]T{a, b}[:operands])
				if !ok {
					continue
				}
				got, sum := make([]T, n), make([]T, n)
				e.Result[0], e.Result[1] = address(t, got), address(t, sum)
				run(t, "elementwise"+suffix[T](), [3]uint32{1, 1, 1}, uint32(n), e)
				want, wantSum := make([]float64, n), make([]float64, n)
				for i := range n {
					x := 0.0
					find := func(at uint32) float64 {
						if at == Previous {
							return x
						}
						return float64([][]T{a, b}[at][i])
					}
					for _, in := range code {
						x = float64(T(reference[in.Op](find(in.X), find(in.Y))))
						if in.Store == 2 {
							wantSum[i] = x
						}
					}
					want[i] = x
				}
				what := fmt.Sprintf("%d of %+v, brief %b", n, code, e.Brief)
				compare(t, what, got, want)
				compare(t, what+": the sum", sum, wantSum)
				found[e.Brief]++
			}
		}
	}
	if len(found) < 14 {
		t.Errorf("only these are brief: %v", found)
	}
}

// expressionOf is code over operands, if there are those that it reads.
func expressionOf[T float](t *testing.T, code []Instruction, in [][]T) (*Expression, bool) {
	var operands []Operand
	for _, x := range in {
		operands = append(operands, full(t, x))
	}
	for _, i := range code {
		for _, at := range []uint32{i.X, i.Y} {
			if at != Previous && at >= uint32(len(in)) {
				return nil, false
			}
		}
	}
	return expression(t, operands, code, 16, 16), true
}

func TestBrief(t *testing.T) {
	leak.Check(t)
	const p = Previous
	for _, c := range []struct {
		code     []Instruction
		operands int
		want     uint32
	}{
		{[]Instruction{{Op: Add, X: p, Y: 0, Store: 1}}, 1, addY},
		{[]Instruction{{Op: Add, X: p, Y: 0, Store: 2}, {Op: Mask, X: p, Y: p, Store: 1}}, 1, addY | storeSum | rectify},
		{[]Instruction{{Op: Copy, X: p, Y: p, Store: 2}, {Op: Mask, X: p, Y: p, Store: 1}}, 0, storeSum | rectify},
		{[]Instruction{{Op: Mask, X: p, Y: 0, Store: 1}}, 1, maskByY},
		{[]Instruction{{Op: Mask, X: 0, Y: 1, Store: 1}}, 2, readX | maskByY},
		{[]Instruction{{Op: Mask, X: 0, Y: 0, Store: 1}}, 1, readX | rectify},
		{[]Instruction{{Op: Add, X: 0, Y: 1, Store: 2}, {Op: Mask, X: p, Y: p, Store: 1}}, 2, readX | addY | storeSum | rectify},
		{[]Instruction{{Op: Mul, X: p, Y: 0, Store: 1}}, 1, 0},
		{[]Instruction{{Op: Add, X: p, Y: 0, Keep: 1, Store: 1}}, 1, 0},
		{[]Instruction{{Op: Add, X: 0, Y: 0, Store: 1}}, 1, 0},
		{nil, 0, 0},
	} {
		if got := brief(c.code, c.operands); got != c.want {
			t.Errorf("%+v of %d operands: %b, want %b", c.code, c.operands, got, c.want)
		}
	}
}
