package cpu

// This file runs operations on single elements: instruction by instruction, over blocks that stay in the
// first-level cache.

import (
	"sync"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// block is how many elements an instruction is run over at a time.
const block = 1024

func elementwise[T float](r *Runner, s *plan.Step, op *plan.Elementwise) func() {
	e := &evaluator[T]{op: op, args: make([][]T, len(op.Args)), outs: make([][]T, len(op.Args)+len(op.Code))}
	e.workers.New = func() any { return newWorker[T](op) }
	heavy := 1
	for _, in := range op.Code {
		heavy += cost(in)
	}
	body := e.run // once, so that no run allocates it
	return func() {
		for i, v := range s.In {
			e.args[i] = values[T](r.mem, v)
		}
		for k, part := range s.More {
			e.outs[op.More[k]] = values[T](r.mem, part.Value)
		}
		e.outs[len(e.outs)-1] = values[T](r.mem, s.Out)
		parallel(s.Out.N, grain/heavy, body)
	}
}

// cost is how long an instruction takes, in additions.
func cost(in plan.Instr) int {
	if in.Binary && in.Kind2 != graph.Pow {
		return 1
	}
	switch in.Kind1 {
	case graph.Abs, graph.Sign, graph.Neg, graph.Square, graph.Cube, graph.Inv, graph.Sqrt:
		return 1
	}
	return 10
}

type evaluator[T float] struct {
	op      *plan.Elementwise
	args    [][]T
	outs    [][]T     // by register: nil but for results
	workers sync.Pool // of *worker[T]
}

// worker has the registers of one core.
type worker[T float] struct {
	regs    []operand[T]
	scratch [][]T // of repeated operands, and of each result but the last
}

// operand is a register: a block of elements, or one for all.
type operand[T float] struct {
	v      []T
	scalar bool
}

func newWorker[T float](op *plan.Elementwise) *worker[T] {
	w := &worker[T]{regs: make([]operand[T], len(op.Args)+len(op.Code)), scratch: make([][]T, len(op.Args)+len(op.Code))}
	for i, a := range op.Args {
		if a.Kind == plan.Repeated {
			w.scratch[i] = make([]T, block)
		}
	}
	for i := range len(op.Code) - 1 {
		w.scratch[len(op.Args)+i] = make([]T, block)
	}
	return w
}

// run computes the elements from lo to hi.
func (e *evaluator[T]) run(lo, hi int) {
	w := e.workers.Get().(*worker[T])
	defer e.workers.Put(w)
	args := len(e.op.Args)
	for ; lo < hi; lo += block {
		n := min(block, hi-lo)
		for i, a := range e.op.Args {
			switch a.Kind {
			case plan.Full, plan.Accumulated:
				w.regs[i] = operand[T]{v: e.args[i][lo : lo+n]}
			case plan.Scalar:
				w.regs[i] = operand[T]{v: e.args[i][:1], scalar: true}
			case plan.Repeated:
				gather(w.scratch[i][:n], e.args[i], lo, a)
				w.regs[i] = operand[T]{v: w.scratch[i][:n]}
			}
			if out := e.outs[i]; out != nil {
				copy(out[lo:lo+n], w.regs[i].v)
			}
		}
		for i, in := range e.op.Code {
			dst := w.scratch[args+i]
			if out := e.outs[args+i]; out != nil {
				dst = out[lo:]
			}
			dst = dst[:n]
			if in.Binary {
				binary(in.Kind2, dst, w.regs[in.A], w.regs[in.B])
			} else {
				unary(in.Kind1, dst, w.regs[in.A])
			}
			w.regs[args+i] = operand[T]{v: dst}
		}
	}
}

// gather copies the elements of a repeated operand that belong to the elements from lo on.
func gather[T float](dst, src []T, lo int, a plan.Arg) {
	for len(dst) > 0 {
		from, n := a.At(lo), 0
		if a.Step > 1 || a.Inner == 1 { // the same element for some
			n = min(a.Step-lo%a.Step, len(dst))
			x := src[from]
			for i := range dst[:n] {
				dst[i] = x
			}
		} else {
			n = copy(dst, src[from:from+a.Inner-lo%a.Inner])
		}
		dst, lo = dst[n:], lo+n
	}
}
