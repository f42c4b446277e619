package plan

import (
	"slices"
	"testing"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

func TestMergeAxes(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct {
		shape, along []int
		want         []Axes
	}{
		{nil, nil, nil},
		{[]int{1, 1}, []int{0}, nil},
		{[]int{2, 3, 4}, nil, []Axes{{24, true}}},
		{[]int{2, 3, 4}, []int{1, 2}, []Axes{{2, false}, {12, true}}},
		{[]int{2, 3, 4, 5}, []int{0, 2}, []Axes{{2, true}, {3, false}, {4, true}, {5, false}}},
		{[]int{2, 1, 4}, []int{1}, []Axes{{8, false}}},
		{[]int{2, 0}, []int{1}, []Axes{{2, false}, {0, true}}},
	} {
		if got := MergeAxes(c.shape, c.along); !slices.Equal(got, c.want) {
			t.Errorf("%v along %v: %v, want %v", c.shape, c.along, got, c.want)
		}
	}
}

// Every element is on one line, at one place of it.
func TestLinesOf(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct {
		shape []int
		axis  int
		want  Lines
	}{
		{[]int{4, 10}, -1, Lines{4, 10, 1}},
		{[]int{4, 10}, 0, Lines{10, 4, 10}},
		{[]int{7, 1}, -1, Lines{1, 7, 1}},
		{[]int{1, 1}, -1, Lines{1, 1, 1}},
		{[]int{2, 3, 4}, 1, Lines{8, 3, 4}},
	} {
		got := LinesOf(c.shape, c.axis)
		if got != c.want {
			t.Errorf("%v, axis %d: %v, want %v", c.shape, c.axis, got, c.want)
		}
		seen := make([]int, got.Count*got.N)
		for i := range got.Count {
			for k := range got.N {
				seen[got.Start(i)+k*got.Step]++
			}
		}
		if slices.Max(seen) != 1 || slices.Min(seen) != 1 {
			t.Errorf("%v, axis %d: elements are on so many lines: %v", c.shape, c.axis, seen)
		}
	}
}

func TestRangeOf(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct{ length, start, end, step, first, count int }{
		{10, 0, -1, 1, 0, 10},
		{10, 2, 5, 1, 2, 3},
		{10, 2, 5, 2, 2, 2},
		{10, 2, 20, 1, 2, 8},
		{10, 12, 20, 1, 10, 0},
		{0, 0, -1, 1, 0, 0},
	} {
		if first, count := RangeOf(c.length, c.start, c.end, c.step); first != c.first || count != c.count {
			t.Errorf("%+v: %d, %d", c, first, count)
		}
	}
}

func TestKeep(t *testing.T) {
	leak.Check(t)
	for p, want := range map[float64]struct {
		threshold uint64
		scale     float64
	}{0: {1 << 32, 1}, 0.5: {1 << 31, 2}, 1: {0, 0}, -1: {1 << 32, 1}, 2: {0, 0}} {
		if threshold, scale := Keep(p); threshold != want.threshold || scale != want.scale {
			t.Errorf("%v: %d, %v, want %v", p, threshold, scale, want)
		}
	}
}

// Repetitions of repetitions are what both in turn are.
func TestThrough(t *testing.T) {
	leak.Check(t)
	repeat := func(shape tensor.Shape, along, n int) (Arg, tensor.Shape) {
		out := shape.Clone()
		out[along] *= n
		return RepetitionOf(graph.Repeat{Along: along}, shape.TotalSize(), out), out
	}
	found := 0
	for _, shape := range []tensor.Shape{{1, 5, 1, 1}, {1, 5, 3, 1}, {4, 1, 1, 3}, {2, 3, 2, 2}, {1, 1, 1, 6}} {
		for first := range shape {
			for second := range shape {
				inner, middle := repeat(shape, first, 4)
				outer, last := repeat(middle, second, 6)
				n := last.TotalSize()
				both, ok := outer.through(inner, n, middle.TotalSize())
				if !ok {
					continue
				}
				found++
				for i := range n {
					if got, want := both.At(i), inner.At(outer.At(i)); got != want {
						t.Errorf("%v repeated along %d and %d: %+v, %+v: %+v has element %d for %d, want %d", shape, first, second, inner, outer, both, got, i, want)
						break
					}
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d of 80 repetitions of repetitions are one", found)
	}
}

func TestSumOfSum(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct{ shape, along, then, others, want []int }{
		{[]int{2, 3, 4, 5}, []int{3}, []int{2, 3, 4}, []int{2}, []int{2, 3}},
		{[]int{2, 3, 4, 5}, []int{3}, []int{2, 3, 4, 1}, []int{2}, []int{2, 3}},
		{[]int{2, 3, 4}, []int{1}, []int{2, 1, 4}, []int{0, 1}, []int{0, 1}},
		{[]int{2, 3, 4}, []int{1}, []int{2, 4}, nil, []int{0, 1, 2}},
		{[]int{2, 1, 4}, []int{2}, []int{2}, []int{0}, []int{0, 2}},
		{[]int{2, 3, 4}, []int{2}, []int{6}, []int{0}, nil}, // of rows that are no axis any more
		{[]int{2, 3, 4}, []int{2}, []int{3, 2}, []int{0}, nil},
		{[]int{4, 4, 2}, []int{2}, []int{4, 2, 2}, []int{0}, nil},
		{[]int{2, 3}, []int{1}, []int{2, 3}, []int{0}, nil},
	} {
		if got, ok := sumOfSum(c.shape, c.along, c.then, c.others); ok != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
