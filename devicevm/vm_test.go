package devicevm_test

// This file compares whole networks, trained for some steps, with tapeMachine.

import (
	"math"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

const steps = 20

// openDevice returns a device, of the kind that tests run on now, that must have nothing left when the test ends.
func openDevice(t testing.TB) *asynccopy.Device {
	return open(t, kinds[kind].driver(t))
}

// open returns a device of drv that must have nothing left when the test ends.
func open(t testing.TB, drv driver.Driver) *asynccopy.Device {
	t.Helper()
	dev, err := asynccopy.OpenDriver(drivertest.Checked(t, drv), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s := dev.Stats(); s.Tensors != 0 || s.Streams != 0 || s.Memory.Current != 0 {
			t.Errorf("left on the device: %d tensors, %d streams, %d bytes", s.Tensors, s.Streams, s.Memory.Current)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// trace is what a run shows: the cost, all gradients, all weights after the solver.
type trace [][]float64

// trainTape trains with tapeMachine.
func trainTape(t testing.TB, n *network, solver G.Solver, steps int) trace {
	t.Helper()
	vm := G.NewTapeMachine(n.graph, G.BindDualValues(n.weights...))
	defer vm.Close()
	var tr trace
	for k := range steps {
		n.feed(t, k, func(node *G.Node, v G.Value) error { return G.Let(node, v) })
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		tr = append(tr, n.cost.floats(t))
		for _, w := range n.weights {
			g, err := w.Grad()
			if err != nil {
				t.Fatal(err)
			}
			tr = append(tr, floats(t, g))
		}
		if err := solver.Step(G.NodesToValueGrads(n.weights)); err != nil {
			t.Fatal(err)
		}
		for _, w := range n.weights {
			tr = append(tr, floats(t, w.Value()))
		}
		vm.Reset()
	}
	return tr
}

// trainDevice trains with a VM of ours, its own solver or Gorgonia's.
func trainDevice(t testing.TB, n *network, dev *asynccopy.Device, solver G.Solver, own bool, steps int, opts ...devicevm.Option) trace {
	t.Helper()
	if own {
		opts = append(opts, devicevm.WithSolver(solver))
	}
	vm, err := devicevm.New(n.graph, dev, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
	}()
	var tr trace
	for k := range steps {
		n.feed(t, k, vm.Let)
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		tr = append(tr, n.cost.floats(t))
		for _, w := range n.weights {
			g, err := w.Grad()
			if own {
				g, err = vm.Grad(w)
			}
			if err != nil {
				t.Fatal(err)
			}
			tr = append(tr, floats(t, g))
		}
		if own {
			err = vm.Sync()
		} else {
			err = solver.Step(G.NodesToValueGrads(n.weights))
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range n.weights {
			tr = append(tr, floats(t, w.Value()))
		}
	}
	return tr
}

// failer is what floats needs of a test, and of a property.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// floats returns the elements of a value.
func floats(t failer, v G.Value) []float64 {
	t.Helper()
	switch d := v.Data().(type) {
	case float32:
		return []float64{float64(d)}
	case float64:
		return []float64{d}
	case []float64:
		return append([]float64(nil), d...)
	case []float32:
		list := make([]float64, len(d))
		for i, x := range d {
			list[i] = float64(x)
		}
		return list
	}
	t.Fatalf("a value of %T", v.Data())
	return nil
}

// compare finds the largest difference, relative to the largest number of each value.
func compare(t testing.TB, got, want trace, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	for i := range want {
		scale := 1e-3
		for _, x := range want[i] {
			scale = max(scale, math.Abs(x))
		}
		if len(got[i]) != len(want[i]) {
			t.Fatalf("value %d of %d: %d elements, want %d", i, len(want), len(got[i]), len(want[i]))
		}
		for k, x := range want[i] {
			if d := math.Abs(got[i][k]-x) / scale; !(d <= tolerance) {
				t.Fatalf("value %d of %d: element %d is %v, want %v: off by %.2g of the largest", i, len(want), k, got[i][k], x, d)
			}
		}
	}
}

func tolerance(dt tensor.Dtype) float64 {
	if dt == tensor.Float64 {
		return 1e-5
	}
	return 1e-4
}

func TestTrainsAsTapeMachine(t *testing.T) {
	for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
		for _, m := range models {
			t.Run(m.name+"/"+dt.String(), func(t *testing.T) {
				leak.Check(t)
				solver := func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.05)) }
				n := newNetwork(t, m, dt, 8)
				want := trainTape(t, newNetwork(t, m, dt, 8), solver(), steps)
				noFallbacks(t, n)
				got := trainDevice(t, n, openDevice(t), solver(), false, steps)
				compare(t, got, want, tolerance(dt))
				got = trainDevice(t, newNetwork(t, m, dt, 8), openDevice(t), solver(), true, steps)
				compare(t, got, want, tolerance(dt))
			})
		}
	}
}

// noFallbacks fails if an operation of the network is not known.
func noFallbacks(t *testing.T, n *network) {
	t.Helper()
	for _, f := range newVM(t, n.graph).Fallbacks() {
		t.Errorf("%s runs on the host", f.Op)
	}
}
