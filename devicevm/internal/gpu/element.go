package gpu

// This file compiles operations on single elements.

import (
	"fmt"
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

func (b *builder) elementwise(s *plan.Step, op *plan.Elementwise) error {
	operands := make([]kernels.Operand, len(op.Args))
	for i, a := range op.Args {
		operands[i] = kernels.Operand{Data: uint64(b.mem.At(s.In[i])), Repeat: 1, Inner: 1}
		switch a.Kind {
		case plan.Scalar:
			operands[i].Repeat = 0
		case plan.Repeated:
			operands[i].Repeat, operands[i].Inner = uint32(a.Rep), uint32(a.Inner)
		}
	}
	code, err := instructions(op)
	if err != nil {
		return err
	}
	code[len(code)-1].Store = 1
	return b.express(s.Out, operands, code)
}

// express adds an expression whose only result is out.
func (b *builder) express(out plan.Value, operands []kernels.Operand, code []kernels.Instruction) error {
	e, err := kernels.NewExpression(operands, code, uint64(b.mem.At(out)))
	if err != nil {
		return err
	}
	b.launch("elementwise", out.Dtype, elements(out.N), append([]argument{number(out.N)}, words(&e)...)...)
	return nil
}

// instructions finds each register's place: the instruction before, a slot from its result to its last use, or an
// operand.
func instructions(op *plan.Elementwise) ([]kernels.Instruction, error) {
	args := len(op.Args)
	last := make([]int, len(op.Code)) // the last instruction that uses the result of each, but the next
	for i, in := range op.Code {
		for k, r := range []int{in.A, in.B} {
			if k == 1 && !in.Binary {
				continue
			}
			if j := r - args; j >= 0 && j != i-1 {
				last[j] = i
			}
		}
	}
	code := make([]kernels.Instruction, len(op.Code))
	var slots [kernels.Slots]int // the instruction that frees each; 0: free
	place := make([]int, len(op.Code))
	for i, in := range op.Code {
		find := func(r int) uint32 {
			switch j := r - args; {
			case j < 0:
				return uint32(r)
			case j == i-1:
				return kernels.Previous
			default:
				return kernels.Kept + uint32(place[j])
			}
		}
		c := kernels.Instruction{X: find(in.A), Y: kernels.Previous}
		if in.Binary {
			c.Op, c.Y = kernels.Add+kernels.Op(in.Kind2), find(in.B)
		} else {
			c.Op = kernels.Abs + kernels.Op(in.Kind1)
		}
		for k, until := range slots {
			if until == i {
				slots[k] = 0
			}
		}
		if last[i] > 0 {
			k := slices.Index(slots[:], 0)
			if k < 0 {
				return nil, fmt.Errorf("an expression needs more than %d intermediate results at once", kernels.Slots)
			}
			slots[k], place[i], c.Keep = last[i], k, uint32(k)+1
		}
		code[i] = c
	}
	return code, nil
}

// repeat repeats slices along an axis.
func (b *builder) repeat(s *plan.Step, op graph.Repeat) error {
	in := kernels.Operand{Data: uint64(b.mem.At(s.In[0])), Repeat: uint32(s.Out.N / s.In[0].N), Inner: 1}
	for _, d := range s.Out.Shape[op.Along+1:] {
		in.Inner *= uint32(d)
	}
	if s.In[0].N == 1 {
		in.Repeat = 0
	}
	return b.express(s.Out, []kernels.Operand{in}, []kernels.Instruction{{Op: kernels.Copy, X: 0, Y: kernels.Previous, Store: 1}})
}
