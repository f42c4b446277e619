package gpu

// This file finds steps that are one expression of rows: a softmax of few classes, what leads to it, and its gradient.
// What one computes the next has in registers.

import (
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// rowing is steps in the making of an expression of rows.
type rowing struct {
	rows, width int
	dtype       tensor.Dtype
	softmax     bool // there is one
	lines       []line
	operands    []plan.Value // registers from 0 on
	args        []plan.Arg   // of those
	results     []plan.Value
	registers   []int // of those
}

// firstResult is the register of the first line: operands' are below.
const firstResult = kernels.MaxOperands

// rowsOf adds the launch of as many of the program's steps from i on as are one expression of rows, and returns how many
// these are: none if it would be too large.
func (b *builder) rowsOf(i int) int {
	var best rowing
	n := 0
	next := rowing{}
	for k := i; k < len(b.prog.Steps); k++ {
		if !next.extend(&b.prog.Steps[k]) {
			break
		}
		if next.softmax {
			best, n = next, k+1-i
		}
	}
	if n == 0 {
		return 0
	}
	store := map[int]uint32{}
	var results []uint64
	for k, v := range best.results {
		if b.wanted(v, i+n) {
			results = append(results, uint64(b.mem.At(v)))
			store[best.registers[k]] = uint32(len(results))
		}
	}
	code, used, err := arrange(best.lines, false, store)
	if err != nil {
		return 0
	}
	var operands []kernels.Operand
	for _, r := range used {
		operands = append(operands, operand(b.mem.At(best.operands[r]), best.args[r], best.rows*best.width))
	}
	e, err := kernels.NewExpression(operands, code, results...)
	if err != nil {
		return 0
	}
	var steps []*plan.Step
	for k := range n {
		steps = append(steps, &b.prog.Steps[i+k])
	}
	b.begin(steps...)
	const each = kernels.Threads / 32
	grid := blocks(min((best.rows+each-1)/each, 1<<16))
	b.launch("rows", best.dtype, grid, append([]argument{number(best.rows), number(best.width)}, words(&e)...)...)
	return n
}

// wanted reports whether a step from i on reads v, or it is kept.
func (b *builder) wanted(v plan.Value, i int) bool {
	for _, w := range b.prog.Where {
		if same(v, w) {
			return true
		}
	}
	for k := range b.prog.Steps[i:] {
		if slices.ContainsFunc(b.prog.Steps[i+k].Reads(), func(w plan.Value) bool { return same(v, w) }) {
			return true
		}
	}
	return false
}

// same reports whether two values are in the same place.
func same(v, w plan.Value) bool {
	return v.Space == w.Space && v.Index == w.Index && v.Off == w.Off && v.N > 0 && w.N > 0
}

// extend adds a step, if it can be part of the expression, and reports whether. What it has of one that can't is of no use.
func (r *rowing) extend(s *plan.Step) bool {
	var rows, width int
	switch op := s.Op.(type) {
	case *plan.Elementwise:
		if rows, width = s.Out.N, 1; len(s.Out.Shape) > 1 {
			width = s.Out.Shape[len(s.Out.Shape)-1]
			rows /= max(width, 1)
		}
		if s.Out.N == r.rows*r.width {
			rows, width = r.rows, r.width
		}
	case graph.Softmax:
		rows, width = linesOf(s, op.Axis)
	case graph.SoftmaxDiff:
		rows, width = linesOf(s, op.Axis)
	}
	if len(r.results) == 0 {
		r.rows, r.width, r.dtype = rows, width, s.Out.Dtype
	}
	if rows*width == 0 || width > kernels.MaxWidth || rows != r.rows || width != r.width || s.Out.Dtype != r.dtype ||
		r.dtype != tensor.Float32 && r.dtype != tensor.Float64 {
		return false
	}
	switch op := s.Op.(type) {
	case *plan.Elementwise:
		if !r.elements(s, op) {
			return false
		}
	case graph.Softmax:
		r.softmax = true
		x, ok := r.read(s.In[0], plan.Arg{})
		if !ok {
			return false
		}
		r.result(s.Out, r.add(logarithmic(kernels.RowSoftmax, op.Log), x))
	case graph.SoftmaxDiff:
		r.softmax = true
		y, ok1 := r.read(s.In[1], plan.Arg{})
		dy, ok2 := r.read(s.In[2], plan.Arg{})
		if !ok1 || !ok2 {
			return false
		}
		r.result(s.Out, r.add(logarithmic(kernels.RowSoftmaxDiff, op.Log), dy, y))
	}
	return len(r.lines) <= kernels.MaxInstructions && len(r.results) <= kernels.MaxResults
}

// logarithmic returns the operation that is op of the logarithm, if log says so.
func logarithmic(op kernels.Op, log bool) kernels.Op {
	if log {
		return op + 1
	}
	return op
}

// linesOf returns the lines of a softmax if they are rows, else nothing.
func linesOf(s *plan.Step, axis int) (rows, width int) {
	if l := plan.LinesOf(s.Out.Shape, axis); l.Step == 1 {
		return l.Count, l.N
	}
	return 0, 0
}

// elements adds an expression.
func (r *rowing) elements(s *plan.Step, op *plan.Elementwise) bool {
	registers := make([]int, len(op.Args)+len(op.Code))
	for k, arg := range op.Args {
		var ok bool
		if registers[k], ok = r.read(s.In[k], arg); !ok {
			return false
		}
	}
	for _, l := range masked(lines(op, false), op) {
		reads := make([]int, len(l.reads))
		for k, from := range l.reads {
			reads[k] = registers[from]
		}
		registers[l.sets] = r.add(l.op, reads...)
	}
	r.result(s.Out, registers[len(registers)-1])
	for k, part := range s.More {
		r.result(part.Value, registers[op.More[k]])
	}
	return true
}

// add adds a line, and returns its register.
func (r *rowing) add(op kernels.Op, reads ...int) int {
	set := firstResult + len(r.lines)
	r.lines = append(r.lines[:len(r.lines):len(r.lines)], line{op, reads, set})
	return set
}

// result says that a value is in a register.
func (r *rowing) result(v plan.Value, register int) {
	r.results = append(r.results[:len(r.results):len(r.results)], v)
	r.registers = append(r.registers[:len(r.registers):len(r.registers)], register)
}

// read returns the register of a value: its own, or an operand's. What other elements are read of must not be computed here.
func (r *rowing) read(v plan.Value, arg plan.Arg) (int, bool) {
	if k := slices.IndexFunc(r.results, func(w plan.Value) bool { return same(v, w) }); k >= 0 {
		return r.registers[k], arg.Kind == plan.Full
	}
	for k, w := range r.operands {
		if same(v, w) && r.args[k] == arg {
			return k, true
		}
	}
	r.operands = append(r.operands[:len(r.operands):len(r.operands)], v)
	r.args = append(r.args[:len(r.args):len(r.args)], arg)
	return len(r.operands) - 1, len(r.operands) <= kernels.MaxOperands
}
