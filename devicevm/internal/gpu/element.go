package gpu

// This file compiles operations on single elements.

import (
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
)

func (b *builder) elementwise(s *plan.Step, op *plan.Elementwise) error {
	e, err := b.expression(s, op, s.In)
	if err != nil {
		return err
	}
	b.express(s.Out, &e)
	return nil
}

// then adds what the elements of a product go through, which lie where the step's result will be.
func (b *builder) then(s *plan.Step, op *plan.Elementwise) error {
	in := append([]plan.Value{s.Out}, s.In[2:]...)
	full := *op
	full.Args = append([]plan.Arg{{Kind: plan.Full}}, op.Args[1:]...)
	e, err := b.expression(s, &full, in)
	if err != nil {
		return err
	}
	b.express(s.Out, &e)
	return nil
}

// express launches an expression whose results are as large as out.
func (b *builder) express(out plan.Value, e *kernels.Expression) {
	b.launch("elementwise", out.Dtype, elements(out.N), append([]argument{number(out.N)}, words(e)...)...)
}

// expression compiles a step's code over the operands in. Where the first operand is accumulated, the kernel that evaluates
// the expression has it already, and in begins with the second.
func (b *builder) expression(s *plan.Step, op *plan.Elementwise, in []plan.Value) (kernels.Expression, error) {
	accumulated := len(op.Args) > 0 && op.Args[0].Kind == plan.Accumulated
	code, used, err := instructions(op, accumulated)
	if err != nil {
		return kernels.Expression{}, err
	}
	operands := make([]kernels.Operand, len(used))
	for i, r := range used {
		v := r
		if accumulated {
			v--
		}
		operands[i] = operand(b.mem.At(in[v]), op.Args[r], s.Out.N)
	}
	results := []uint64{uint64(b.mem.At(s.Out))}
	for _, part := range s.More {
		results = append(results, uint64(b.mem.At(part.Value)))
	}
	return kernels.NewExpression(operands, code, results...)
}

// operand is an operand of a result of n elements.
func operand(data driver.DevicePtr, a plan.Arg, n int) kernels.Operand {
	switch a.Kind {
	case plan.Scalar:
		return kernels.Operand{Data: uint64(data), Reach: kernels.One}
	case plan.Repeated:
		return kernels.NewOperand(uint64(data), n, a.Step, a.Rep, a.Inner)
	}
	return kernels.Operand{Data: uint64(data), Reach: kernels.Same}
}

// repeat repeats slices along an axis.
func (b *builder) repeat(s *plan.Step, op graph.Repeat) error {
	in := operand(b.mem.At(s.In[0]), plan.RepetitionOf(op, s.In[0].N, s.Out.Shape), s.Out.N)
	e, err := kernels.NewExpression([]kernels.Operand{in}, []kernels.Instruction{{Op: kernels.Copy, X: 0, Y: kernels.Previous, Store: 1}}, uint64(b.mem.At(s.Out)))
	if err != nil {
		return err
	}
	b.express(s.Out, &e)
	return nil
}
