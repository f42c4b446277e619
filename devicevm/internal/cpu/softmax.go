package cpu

// This file has softmax, its logarithm, and their gradients.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// lines are the runs of elements along an axis.
type lines struct{ count, n, step int }

// softmaxAxis resolves the axis. Gorgonia's choice, -1, is the first axis of a column vector.
func softmaxAxis(shape []int, axis int) int {
	if axis >= 0 {
		return axis
	}
	if len(shape) == 2 && shape[1] == 1 && shape[0] > 1 {
		return 0
	}
	return len(shape) - 1
}

func linesOf(shape []int, axis int) lines {
	axis = softmaxAxis(shape, axis)
	l := lines{count: 1, n: shape[axis], step: 1}
	for i, d := range shape {
		if i != axis {
			l.count *= d
		}
		if i > axis {
			l.step *= d
		}
	}
	return l
}

// start returns the place of the first element of a line.
func (l lines) start(i int) int { return i/l.step*l.n*l.step + i%l.step }

func softmax[T float](r *Runner, s *plan.Step, op graph.Softmax) func() {
	l := linesOf(s.Out.Shape, op.Axis)
	return func() {
		x, y := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		parallel(l.count, max(grain/(16*max(l.n, 1)), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				softmaxLine(x, y, l.start(i), l, op.Log)
			}
		})
	}
}

func softmaxLine[T float](x, y []T, start int, l lines, log bool) {
	largest := math.Inf(-1)
	for j, at := 0, start; j < l.n; j, at = j+1, at+l.step {
		largest = max(largest, float64(x[at]))
	}
	var total float64
	for j, at := 0, start; j < l.n; j, at = j+1, at+l.step {
		e := math.Exp(float64(x[at]) - largest)
		total += e
		y[at] = T(e)
	}
	if log {
		shift := largest + math.Log(total)
		for j, at := 0, start; j < l.n; j, at = j+1, at+l.step {
			y[at] = T(float64(x[at]) - shift)
		}
		return
	}
	for j, at := 0, start; j < l.n; j, at = j+1, at+l.step {
		y[at] = T(float64(y[at]) / total)
	}
}

func softmaxDiff[T float](r *Runner, s *plan.Step, op graph.SoftmaxDiff) func() {
	l := linesOf(s.Out.Shape, op.Axis)
	return func() {
		y, dy, dx := values[T](r.mem, s.In[1]), values[T](r.mem, s.In[2]), values[T](r.mem, s.Out)
		parallel(l.count, max(grain/(16*max(l.n, 1)), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				softmaxDiffLine(y, dy, dx, l.start(i), l, op.Log)
			}
		})
	}
}

func softmaxDiffLine[T float](y, dy, dx []T, start int, l lines, log bool) {
	var total float64
	for j, at := 0, start; j < l.n; j, at = j+1, at+l.step {
		if log {
			total += float64(dy[at])
		} else {
			total += float64(dy[at]) * float64(y[at])
		}
	}
	for j, at := 0, start; j < l.n; j, at = j+1, at+l.step {
		if log {
			dx[at] = T(float64(dy[at]) - math.Exp(float64(y[at]))*total)
		} else {
			dx[at] = T(float64(y[at]) * (float64(dy[at]) - total))
		}
	}
}
