package devicevm_test

// This file has steps that run ahead: nothing is read from run to run, so the host does not wait for them.

import (
	"testing"

	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Each step computes with what it was given, though the tensors are overwritten as soon as they may be, with Let and with
// gorgonia.Let.
func TestStepsRunAhead(t *testing.T) {
	leak.Check(t)
	solver := func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.05)) }
	want := trainTape(t, newNetwork(t, models[1], tensor.Float64, 8), solver(), steps)
	for _, bound := range []bool{false, true} {
		n := newNetwork(t, models[1], tensor.Float64, 8)
		vm, err := devicevm.New(n.graph, openDevice(t), devicevm.WithSolver(solver()), devicevm.WithReadEvery(steps))
		if err != nil {
			t.Fatal(err)
		}
		buffers := map[*G.Node]*tensor.Dense{}
		for k := range steps {
			n.feed(t, k, func(node *G.Node, v G.Value) error {
				d := buffers[node]
				if d == nil {
					d = v.(*tensor.Dense).Clone().(*tensor.Dense)
					buffers[node] = d
				}
				copy(d.Raw, v.(*tensor.Dense).Raw)
				if bound {
					return G.Let(node, d)
				}
				return vm.Let(node, d)
			})
			run(t, vm)
			for _, d := range buffers {
				if err := d.Memset(1e30); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := vm.Close(); err != nil {
			t.Fatal(err)
		}
		var got trace
		for _, w := range n.weights {
			got = append(got, floats(t, w.Value()))
		}
		compare(t, got, want[len(want)-len(got):], 1e-5)
		compare(t, trace{n.cost.floats(t)}, want[len(want)-2*len(got)-1:][:1], 1e-5)
	}
}
