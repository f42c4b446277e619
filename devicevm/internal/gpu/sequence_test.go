package gpu

// This file tests which steps are sequences, and that none reads what another block has yet to compute.

import (
	"testing"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

// Each row's sum, and then what is left without the sum of the row, or of the row of a column's number, which another
// block computes if rows are divided.
func TestSequencesOfRows(t *testing.T) {
	leak.Check(t)
	const n = 20
	minus := func(arg plan.Arg) *plan.Elementwise {
		return &plan.Elementwise{Args: []plan.Arg{{}, arg}, Code: []plan.Instr{{Binary: true, Kind2: graph.Sub, A: 0, B: 1}}}
	}
	for _, c := range []struct {
		name  string
		op    *plan.Elementwise
		other func(row, column int) int // whose sum
	}{
		{"row", minus(plan.Arg{Kind: plan.Repeated, Step: n, Rep: 1, Inner: 1}), func(row, _ int) int { return row }},
		{"column", minus(plan.Arg{Kind: plan.Repeated, Step: 1, Rep: n, Inner: n}), func(_, column int) int { return column }},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := make([]float32, 2*n*n+n)
			sums := make([]float32, n)
			for i := range n * n {
				values[i] = float32(i*i%37 - 18)
				sums[i/n] += values[i]
			}
			p := &plan.Program{Steps: []plan.Step{
				{Op: graph.Sum{Along: []int{1}}, In: []plan.Value{value(0, n, n)}, Out: value(n*n, n)},
				{Op: c.op, In: []plan.Value{value(0, n, n), value(n*n, n)}, Out: value(n*n+n, n, n)},
			}}
			code, err := compile(p, Memory{Inputs: []driver.DevicePtr{4096}}, false, false, false)
			check(t, err)
			if got := len(code.segments[0].work); got != 1 {
				t.Errorf("%d launches, want 1", got)
			}
			got := run(t, p, values, graph.Settings{})[n*n+n:]
			for i := range n * n {
				if want := values[i] - sums[c.other(i/n, i%n)]; got[i] != want {
					t.Fatalf("element (%d, %d) is %v, want %v", i/n, i%n, got[i], want)
				}
			}
		})
	}
}
