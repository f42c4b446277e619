package cpu

// This file has operations that move elements: transposing, repeating, slicing, joining.

import (
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// transpose walks the result in order, and the operand by strides.
func transpose[T float](r *Runner, s *plan.Step, op graph.Transpose) func() {
	shape := s.Out.Shape
	dims := len(shape)
	in := plan.Strides(s.In[0].Shape)
	steps := make([]int, dims) // in the operand, by axis of the result
	for i, p := range op.Pattern {
		steps[i] = in[p]
	}
	inner, step := 1, 1
	if dims > 0 {
		inner, step = shape[dims-1], steps[dims-1]
	}
	rows := 0
	if inner > 0 {
		rows = s.Out.N / inner
	}
	return func() {
		src, dst := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		parallel(rows, max(grain/max(inner, 1), 1), func(lo, hi int) {
			for row := lo; row < hi; row++ {
				from, rest := 0, row
				for i := dims - 2; i >= 0; i-- {
					from += rest % shape[i] * steps[i]
					rest /= shape[i]
				}
				to := dst[row*inner : (row+1)*inner]
				for j := range to {
					to[j] = src[from+j*step]
				}
			}
		})
	}
}

func repeat[T float](r *Runner, s *plan.Step, op graph.Repeat) func() {
	arg := plan.RepetitionOf(op, s.In[0].N, s.Out.Shape)
	return func() { gather(values[T](r.mem, s.Out), values[T](r.mem, s.In[0]), 0, arg) }
}

// span is a range of an axis, in units of the elements behind it.
type span struct{ outer, length, inner, start, count, step int }

func spanOf(shape []int, along, start, end, step int) span {
	first, count := plan.RangeOf(shape[along], start, end, step)
	sp := span{outer: 1, length: shape[along], inner: 1, start: first, count: count, step: step}
	for _, d := range shape[:along] {
		sp.outer *= d
	}
	for _, d := range shape[along+1:] {
		sp.inner *= d
	}
	return sp
}

// each calls f with the places of each run of elements: in the whole, and in the slice.
func (sp span) each(f func(whole, part, n int)) {
	for o := range sp.outer {
		if sp.step == 1 {
			f((o*sp.length+sp.start)*sp.inner, o*sp.count*sp.inner, sp.count*sp.inner)
			continue
		}
		for c := range sp.count {
			f((o*sp.length+sp.start+c*sp.step)*sp.inner, (o*sp.count+c)*sp.inner, sp.inner)
		}
	}
}

// slice copies a slice out of its child, or into zeros.
func slice[T float](r *Runner, s *plan.Step) func() {
	if op, ok := s.Op.(graph.Slice); ok {
		sp := spanOf(s.In[0].Shape, op.Along, op.Start, op.End, op.Step)
		return func() {
			src, dst := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
			sp.each(func(whole, part, n int) { copy(dst[part:part+n], src[whole:whole+n]) })
		}
	}
	op := s.Op.(graph.SliceIncr)
	sp := spanOf(s.Out.Shape, op.Along, op.Start, op.End, op.Step)
	return func() {
		src, dst := values[T](r.mem, s.In[1]), values[T](r.mem, s.Out)
		clear(dst)
		if len(src) == 1 {
			sp.each(func(whole, _, n int) {
				for i := range n {
					dst[whole+i] = src[0]
				}
			})
			return
		}
		sp.each(func(whole, part, n int) { copy(dst[whole:whole+n], src[part:part+n]) })
	}
}

func concat[T float](r *Runner, s *plan.Step, op graph.Concat) func() {
	total := plan.Strides(s.Out.Shape)[op.Axis] * s.Out.Shape[op.Axis]
	return func() {
		dst := values[T](r.mem, s.Out)
		at := 0
		for _, v := range s.In {
			src := values[T](r.mem, v)
			run := plan.Strides(v.Shape)[op.Axis] * v.Shape[op.Axis]
			for o := 0; o*run < len(src); o++ {
				copy(dst[o*total+at:o*total+at+run], src[o*run:(o+1)*run])
			}
			at += run
		}
	}
}
