package cpu

// This file has sums and maxima along axes.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/plan"
)

// reduce adds, or finds the largest, along axes. All if there are none.
func reduce[T float](r *Runner, s *plan.Step, along []int, largest bool) func() {
	groups := plan.MergeAxes(s.In[0].Shape, along)
	switch {
	case len(groups) == 0:
		groups = []plan.Axes{{N: 1}, {N: 1, Reduced: true}}
	case len(groups) == 1 && groups[0].Reduced:
		groups = []plan.Axes{{N: 1}, groups[0]}
	case len(groups) == 1:
		groups = append(groups, plan.Axes{N: 1, Reduced: true})
	}
	if len(groups) == 2 && groups[1].Reduced {
		return reduceRows[T](r, s, groups[0].N, groups[1].N, largest)
	}
	return reduceAny[T](r, s, groups, largest)
}

// reduceRows makes one number of each row.
func reduceRows[T float](r *Runner, s *plan.Step, rows, n int, largest bool) func() {
	return func() {
		src, dst := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		parallel(rows, max(grain/max(n, 1), 1), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				row := src[i*n : (i+1)*n]
				if largest {
					dst[i] = maximum(row)
				} else {
					dst[i] = sum(row)
				}
			}
		})
	}
}

// sum adds in float64, in four lanes.
func sum[T float](v []T) T {
	var a, b, c, d float64
	for len(v) >= 4 {
		a += float64(v[0])
		b += float64(v[1])
		c += float64(v[2])
		d += float64(v[3])
		v = v[4:]
	}
	for _, x := range v {
		a += float64(x)
	}
	return T(a + b + (c + d))
}

func maximum[T float](v []T) T {
	m := T(math.Inf(-1))
	for _, x := range v {
		m = max(m, x)
	}
	return m
}

// reduceAny walks the operand in order and adds each run to its place in the result.
func reduceAny[T float](r *Runner, s *plan.Step, groups []plan.Axes, largest bool) func() {
	steps := make([]int, len(groups)) // in the result, by group
	size := 1
	for i := len(groups) - 1; i >= 0; i-- {
		if !groups[i].Reduced {
			steps[i] = size
			size *= groups[i].N
		}
	}
	last := groups[len(groups)-1]
	return func() {
		src, dst := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		first := T(0)
		if largest {
			first = T(math.Inf(-1))
		}
		for i := range dst {
			dst[i] = first
		}
		for row := 0; row*last.N < len(src); row++ {
			at, rest := 0, row
			for i := len(groups) - 2; i >= 0; i-- {
				at += rest % groups[i].N * steps[i]
				rest /= groups[i].N
			}
			fold(dst[at:], src[row*last.N:(row+1)*last.N], last.Reduced, largest)
		}
	}
}

// fold adds a run to one place, or to as many.
func fold[T float](dst, run []T, reduced, largest bool) {
	switch {
	case reduced && largest:
		dst[0] = max(dst[0], maximum(run))
	case reduced:
		dst[0] += sum(run)
	case largest:
		for i, x := range run {
			dst[i] = max(dst[i], x)
		}
	default:
		dst = dst[:len(run)]
		for i, x := range run {
			dst[i] += x
		}
	}
}
