package gpu

// This file compiles operations on single elements.

import (
	"fmt"
	"slices"

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

// then is what the elements of a product go through that is where the step's result will be.
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
	args := op.Args
	accumulated := len(args) > 0 && args[0].Kind == plan.Accumulated
	if accumulated {
		args = args[1:]
	}
	code, used, err := instructions(op, accumulated)
	if err != nil {
		return kernels.Expression{}, err
	}
	operands := make([]kernels.Operand, len(used))
	for i, r := range used {
		operands[i] = operand(b.mem.At(in[r]), args[r], s.Out.N)
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

// line is an instruction whose registers have no places yet.
type line struct {
	op    kernels.Op
	reads []int // registers; none: what the kernel has computed
	sets  int   // the register
}

// lines are the instructions of an expression: what is accumulated, or an operand that is a result too, is copied first.
func lines(op *plan.Elementwise, accumulated bool) []line {
	var list []line
	if accumulated {
		list = append(list, line{op: kernels.Copy, sets: 0})
	}
	for _, r := range op.More {
		if r < len(op.Args) && !(accumulated && r == 0) {
			list = append(list, line{op: kernels.Copy, reads: []int{r}, sets: r})
		}
	}
	for i, in := range op.Code {
		l := line{op: kernels.Abs + kernels.Op(in.Kind1), reads: []int{in.A}, sets: len(op.Args) + i}
		if in.Binary {
			l.op, l.reads = kernels.Add+kernels.Op(in.Kind2), []int{in.A, in.B}
		}
		list = append(list, l)
	}
	return list
}

// masked makes one line of a product with a comparison with 0 that only it reads: a rectifier, or its gradient.
func masked(list []line, op *plan.Elementwise) []line {
	zero := func(r int) bool { return r < len(op.Args) && op.Args[r].Zero }
	const comparison = kernels.Add + kernels.Op(graph.Gte)
	readers, by := map[int]int{}, map[int]*line{}
	for i := range list {
		for _, r := range list[i].reads {
			readers[r]++
		}
		by[list[i].sets] = &list[i]
	}
	gone := map[int]bool{}
	for i := range list {
		l := &list[i]
		if l.op != kernels.Add+kernels.Op(graph.Mul) {
			continue
		}
		for k, r := range l.reads {
			c := by[r]
			if c == nil || c.op != comparison || readers[r] != 1 || slices.Contains(op.More, r) || !zero(c.reads[1]) {
				continue
			}
			l.op, l.reads, gone[r] = kernels.Mask, []int{l.reads[1-k], c.reads[0]}, true
			break
		}
	}
	return slices.DeleteFunc(list, func(l line) bool { return gone[l.sets] })
}

// instructions finds each register's place: the instruction before, a slot from its result to its last use, or an
// operand, of those in use.
func instructions(op *plan.Elementwise, accumulated bool) (code []kernels.Instruction, used []int, err error) {
	list := masked(lines(op, accumulated), op)
	set, last := map[int]int{}, map[int]int{} // the line that sets each register, and the last that reads it, but for the next
	for i, l := range list {
		for _, r := range l.reads {
			if at, ok := set[r]; ok && at != i-1 {
				last[r] = i
			}
		}
		set[l.sets] = i
	}
	store := map[int]uint32{len(op.Args) + len(op.Code) - 1: 1}
	for k, r := range op.More {
		store[r] = uint32(k) + 2
	}
	shift := 0 // of the operands' numbers
	if accumulated {
		shift = 1
	}
	number := func(r int) uint32 {
		k := slices.Index(used, r-shift)
		if k < 0 {
			k = len(used)
			used = append(used, r-shift)
		}
		return uint32(k)
	}
	var slots [kernels.Slots]int // the line that frees each; 0: free
	place := map[int]uint32{}
	for i, l := range list {
		in := kernels.Instruction{Op: l.op, X: kernels.Previous, Y: kernels.Previous, Store: store[l.sets]}
		for k, r := range l.reads {
			var at uint32
			switch from, ok := set[r]; {
			case ok && from == i-1:
				at = kernels.Previous
			case ok && from < i:
				at = place[r]
			default:
				at = number(r)
			}
			if k == 0 {
				in.X = at
			} else {
				in.Y = at
			}
		}
		for k, until := range slots {
			if until == i {
				slots[k] = 0
			}
		}
		if last[l.sets] > 0 {
			k := slices.Index(slots[:], 0)
			if k < 0 {
				return nil, nil, fmt.Errorf("an expression needs more than %d intermediate results at once", kernels.Slots)
			}
			slots[k], place[l.sets], in.Keep = last[l.sets], kernels.Kept+uint32(k), uint32(k)+1
		}
		if i == 0 && accumulated && in.Keep == 0 && in.Store == 0 {
			continue // the next one has it from the kernel itself
		}
		code = append(code, in)
	}
	return code, used, nil
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
