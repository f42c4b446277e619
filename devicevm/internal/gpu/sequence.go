package gpu

// This file finds sequences: steps on small tensors, or row by row, as are softmax, the loss and its gradient. Each of them
// takes less time than launching it, so one kernel computes all of them, one after the other.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

const (
	// small is the size up to which one block computes a step, or a row of it.
	small = 4096

	// large is the size from which steps are not joined: they take their time, and kernels of their own read
	// several elements at once.
	large = 1 << 18
)

// series is steps that may be one sequence.
type series struct {
	kernels.Sequence
	steps   []*plan.Step
	rows    int  // of the first step, and of all if they are local
	local   bool // every step has as many rows, and none needs what is computed of another row
	largest int  // elements
	softmax bool
}

// together adds the launch of as many of the program's steps from i on as one kernel computes, and returns how many these
// are: none if each has one of its own.
func (b *builder) together(i int) int {
	if b.found > 0 {
		return 0 // each step's result is looked at
	}
	if n := b.rowsOf(i); n > 0 {
		return n
	}
	return b.sequence(b.prog.Steps[i:])
}

// sequence adds the launch of as many of the steps as can be one, and returns how many these are. It leaves one alone to
// a kernel of its own.
func (b *builder) sequence(steps []plan.Step) int {
	var best series
	next := series{local: true}
	for i := range steps {
		if !b.extend(&next, &steps[i]) {
			break
		}
		best = next
	}
	if len(best.steps) < 2 {
		return 0
	}
	b.begin(best.steps...)
	b.launch("sequence", best.steps[0].Out.Dtype, blocks(best.divide()), words(&best.Sequence)...)
	return len(best.steps)
}

// divide says how rows are divided, and returns among how many blocks.
func (r *series) divide() int {
	stages := r.Stage[:r.Stages]
	if r.local {
		each := kernels.Threads / 32 // a row for each warp
		for _, s := range stages {
			if s.Together == 1 {
				each = 1
			}
		}
		r.Divide(uint32(each))
		return (r.rows + each - 1) / each
	}
	r.Divide(math.MaxUint32)
	for i, s := range stages {
		if s.Kind >= kernels.SumRows && s.Width <= 32 && s.Rows > kernels.Threads/32 {
			stages[i].Together = kernels.Threads // a warp for each would be several rows in turn
		}
	}
	return 1
}

// extend adds a step, if it can be one of the sequence's, and reports whether.
func (b *builder) extend(r *series, s *plan.Step) bool {
	dt := s.Out.Dtype
	if s.Out.N == 0 || dt != tensor.Float32 && dt != tensor.Float64 || len(r.steps) > 0 && dt != r.steps[0].Out.Dtype {
		return false
	}
	stage, e, ok := b.stage(s)
	if !ok {
		return false
	}
	rows, width := int(stage.Rows), int(stage.Width)
	if stage.Kind == kernels.Express && r.rows > 0 && rows*width%r.rows == 0 {
		rows, width = r.rows, rows*width/r.rows
		stage.Rows, stage.Width = uint32(rows), uint32(width)
	}
	if len(r.steps) == 0 {
		r.rows = rows
	}
	r.local = r.local && rows == r.rows && width <= small && r.owns(s, rows, width)
	r.largest = max(r.largest, rows*width)
	r.softmax = r.softmax || stage.Kind != kernels.Express && stage.Kind < kernels.SumRows && rows > 2*kernels.Threads/32
	if r.largest > large || !r.local && (r.largest > small || r.softmax) { // a softmax is for several blocks
		return false
	}
	r.steps = append(r.steps, s)
	return r.Add(stage, &e)
}

// stage returns the stage that computes a step, by itself, if there is one.
func (b *builder) stage(s *plan.Step) (stage kernels.Stage, e kernels.Expression, ok bool) {
	operands := func(in ...plan.Value) kernels.Expression {
		e := kernels.Expression{Result: [kernels.MaxResults]uint64{uint64(b.mem.At(s.Out))}}
		for i, v := range in {
			e.Operand[i] = operand(b.mem.At(v), plan.Arg{}, v.N)
			e.Operands++
		}
		return e
	}
	lines := func(kind kernels.StageKind, l plan.Lines, log bool) kernels.Stage {
		if log {
			kind++
		}
		return kernels.Stage{Kind: kind, Rows: uint32(l.Count), Width: uint32(l.N), Together: uint32(inOneBlock(l.N))}
	}
	switch op := s.Op.(type) {
	case *plan.Elementwise:
		e, err := b.expression(s, op, s.In)
		rows := s.Out.N
		if d := len(s.Out.Shape); d > 1 {
			rows /= s.Out.Shape[d-1]
		}
		return kernels.Stage{Kind: kernels.Express, Rows: uint32(rows), Width: uint32(s.Out.N / rows)}, e, err == nil
	case graph.Softmax:
		l := plan.LinesOf(s.Out.Shape, op.Axis)
		return lines(kernels.Softmax, l, op.Log), operands(s.In[0]), l.Step == 1
	case graph.SoftmaxDiff:
		l := plan.LinesOf(s.Out.Shape, op.Axis)
		return lines(kernels.SoftmaxDiff, l, op.Log), operands(s.In[1], s.In[2]), l.Step == 1
	case graph.Sum:
		return b.stageOfRows(kernels.SumRows, s, op.Along, operands(s.In[0]))
	case graph.Max:
		return b.stageOfRows(kernels.MaxRows, s, op.Along, operands(s.In[0]))
	}
	return stage, e, false
}

// stageOfRows is the stage of a reduction of rows.
func (b *builder) stageOfRows(kind kernels.StageKind, s *plan.Step, along []int, e kernels.Expression) (kernels.Stage, kernels.Expression, bool) {
	groups := plan.MergeAxes(s.In[0].Shape, along)
	n := len(groups)
	if s.In[0].N == 0 || n == 0 || n > 2 || !groups[n-1].Reduced {
		return kernels.Stage{}, e, false
	}
	width := groups[n-1].N
	return kernels.Stage{Kind: kind, Rows: uint32(s.In[0].N / width), Width: uint32(width), Together: uint32(inOneBlock(width))}, e, true
}

// owns reports whether no row of the step needs what the sequence computes of another row.
func (r *series) owns(s *plan.Step, rows, width int) bool {
	op, ok := s.Op.(*plan.Elementwise)
	if !ok {
		return true // they are rows of the same number
	}
	for k, arg := range op.Args {
		own := arg.Kind == plan.Full || arg.Kind == plan.Repeated && arg.Inner == 1 && arg.Step == width
		if !own && rows > 1 && r.computes(s.In[k]) {
			return false
		}
	}
	return true
}

// computes reports whether a step of the sequence has v as its result.
func (r *series) computes(v plan.Value) bool {
	for _, s := range r.steps {
		for _, w := range s.Writes() {
			if w.N > 0 && w.Space == v.Space && w.Index == v.Index && w.Off == v.Off {
				return true
			}
		}
	}
	return false
}
