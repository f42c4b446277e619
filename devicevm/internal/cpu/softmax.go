package cpu

// This file has softmax, its logarithm, and their gradients.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

func softmax[T float](r *Runner, s *plan.Step, op graph.Softmax) func() {
	l := plan.LinesOf(s.Out.Shape, op.Axis)
	return func() {
		x, y := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		parallel(l.Count, max(grain/(16*max(l.N, 1)), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				softmaxLine(x, y, l.Start(i), l, op.Log)
			}
		})
	}
}

func softmaxLine[T float](x, y []T, start int, l plan.Lines, log bool) {
	largest := math.Inf(-1)
	for j, at := 0, start; j < l.N; j, at = j+1, at+l.Step {
		largest = max(largest, float64(x[at]))
	}
	var total float64
	for j, at := 0, start; j < l.N; j, at = j+1, at+l.Step {
		e := math.Exp(float64(x[at]) - largest)
		total += e
		y[at] = T(e)
	}
	if log {
		shift := largest + math.Log(total)
		for j, at := 0, start; j < l.N; j, at = j+1, at+l.Step {
			y[at] = T(float64(x[at]) - shift)
		}
		return
	}
	for j, at := 0, start; j < l.N; j, at = j+1, at+l.Step {
		y[at] = T(float64(y[at]) / total)
	}
}

func softmaxDiff[T float](r *Runner, s *plan.Step, op graph.SoftmaxDiff) func() {
	l := plan.LinesOf(s.Out.Shape, op.Axis)
	return func() {
		y, dy, dx := values[T](r.mem, s.In[1]), values[T](r.mem, s.In[2]), values[T](r.mem, s.Out)
		parallel(l.Count, max(grain/(16*max(l.N, 1)), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				softmaxDiffLine(y, dy, dx, l.Start(i), l, op.Log)
			}
		})
	}
}

func softmaxDiffLine[T float](y, dy, dx []T, start int, l plan.Lines, log bool) {
	var total float64
	for j, at := 0, start; j < l.N; j, at = j+1, at+l.Step {
		if log {
			total += float64(dy[at])
		} else {
			total += float64(dy[at]) * float64(y[at])
		}
	}
	for j, at := 0, start; j < l.N; j, at = j+1, at+l.Step {
		if log {
			dx[at] = T(float64(dy[at]) - math.Exp(float64(y[at]))*total)
		} else {
			dx[at] = T(float64(y[at]) * (float64(dy[at]) - total))
		}
	}
}
