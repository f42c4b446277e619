package cpu

// This file has max pooling. The place of each maximum in its plane is kept for the gradient; -1 where a patch
// lies in the padding alone. A patch with a NaN is NaN, as everywhere but in Gorgonia.

import (
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// lowest is what Gorgonia gives for a patch without elements.
func lowest[T float]() T {
	var x T
	switch p := any(&x).(type) {
	case *float32:
		*p = -3.40282346638528859811704183484516925440e+38
	case *float64:
		*p = -1.79769313486231570814527423731704356798070e+308
	}
	return x
}

func maxPool[T float](r *Runner, s *plan.Step, op graph.Pool) func() {
	in, out := s.In[0].Shape, s.Out.Shape
	plane, pooled := in[2]*in[3], out[2]*out[3]
	return func() {
		x, y, places := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out), values[int32](r.mem, s.Aux)
		parallel(in[0]*in[1], max(grain/max(plane, 1), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				poolPlane(op, x[i*plane:(i+1)*plane], in[2], in[3], y[i*pooled:(i+1)*pooled], places[i*pooled:(i+1)*pooled], out[2], out[3])
			}
		})
	}
}

func poolPlane[T float](op graph.Pool, x []T, h, w int, y []T, places []int32, outH, outW int) {
	for oh := range outH {
		top := oh*op.StrideH - op.North
		bottom := min(top+op.KernelH, h)
		top = max(top, 0)
		for ow := range outW {
			left := ow*op.StrideW - op.West
			right := min(left+op.KernelW, w)
			left = max(left, 0)
			best, at := lowest[T](), int32(-1)
			for i := top; i < bottom; i++ {
				for j := left; j < right; j++ {
					if v := x[i*w+j]; v > best || v != v {
						best, at = v, int32(i*w+j)
					}
				}
			}
			y[oh*outW+ow], places[oh*outW+ow] = best, at
		}
	}
}

func maxPoolDiff[T float](r *Runner, s *plan.Step) func() {
	in, out := s.Out.Shape, s.In[1].Shape
	plane, pooled := in[2]*in[3], out[2]*out[3]
	return func() {
		dy, dx, places := values[T](r.mem, s.In[2]), values[T](r.mem, s.Out), values[int32](r.mem, s.Aux)
		clear(dx)
		parallel(in[0]*in[1], max(grain/max(plane, 1), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				to := dx[i*plane : (i+1)*plane]
				for j, at := range places[i*pooled : (i+1)*pooled] {
					if at >= 0 {
						to[at] += dy[i*pooled+j]
					}
				}
			}
		})
	}
}
