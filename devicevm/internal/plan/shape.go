package plan

// This file has what all backends have to know of shapes and layers.

// Strides returns the strides of a row-major shape, in elements.
func Strides(shape []int) []int {
	s := make([]int, len(shape))
	size := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = size
		size *= shape[i]
	}
	return s
}

// Axes are neighbouring axes that are all reduced, or all kept.
type Axes struct {
	N       int // their elements
	Reduced bool
}

// MergeAxes joins neighbouring axes of a reduction along some axes, or along all if along is empty. Axes of length 1
// are left out.
func MergeAxes(shape, along []int) []Axes {
	var groups []Axes
	for i, n := range shape {
		reduced := len(along) == 0
		for _, a := range along {
			reduced = reduced || a == i
		}
		if n == 1 {
			continue
		}
		if k := len(groups) - 1; k >= 0 && groups[k].Reduced == reduced {
			groups[k].N *= n
			continue
		}
		groups = append(groups, Axes{n, reduced})
	}
	return groups
}

// Lines are the runs of N elements along an axis, Step elements apart.
type Lines struct{ Count, N, Step int }

// LinesOf returns the lines of a softmax along an axis, -1 for Gorgonia's choice: the last axis, the first of a column
// vector.
func LinesOf(shape []int, axis int) Lines {
	if axis < 0 {
		axis = len(shape) - 1
		if len(shape) == 2 && shape[1] == 1 && shape[0] > 1 {
			axis = 0
		}
	}
	l := Lines{Count: 1, N: shape[axis], Step: 1}
	for i, d := range shape {
		if i != axis {
			l.Count *= d
		}
		if i > axis {
			l.Step *= d
		}
	}
	return l
}

// Start returns the place of the first element of line i.
func (l Lines) Start(i int) int { return i/l.Step*l.N*l.Step + i%l.Step }

// ChannelsOf reads a shape as (batch, channels, space).
func ChannelsOf(shape []int) (batch, channels, space int) {
	space = 1
	for _, d := range shape[2:] {
		space *= d
	}
	return shape[0], shape[1], space
}

// RangeOf returns where a slice of an axis of the given length begins, and how many elements of the axis it has. An end
// of -1 is the axis's.
func RangeOf(length, start, end, step int) (first, count int) {
	if end < 0 || end > length {
		start, end = min(start, length), length
	}
	return start, (end - start + step - 1) / step
}

// Keep returns what a dropout with the probability p does: an element whose random word is below the threshold is kept,
// and scaled.
func Keep(p float64) (threshold uint64, scale float64) {
	keep := 1 - min(max(p, 0), 1)
	if threshold = uint64(keep * (1 << 32)); threshold > 0 {
		scale = 1 / keep
	}
	return threshold, scale
}
