package devicevm_test

// This file has how inputs get their values, and what is refused.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// double is a graph of 2x, for x of three numbers.
func double() (g *G.ExprGraph, x, y *G.Node) {
	g = G.NewGraph()
	x = G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("x"))
	return g, x, G.Must(G.Add(x, x))
}

func vector(x ...float64) *tensor.Dense { return tensor.New(tensor.WithBacking(x)) }

// wantY runs vm and looks at y.
func wantY(t *testing.T, vm *devicevm.VM, y *G.Node, want ...float64) {
	t.Helper()
	run(t, vm)
	compare(t, trace{floats(t, y.Value())}, trace{want}, 0)
}

func TestLet(t *testing.T) {
	leak.Check(t)
	g, x, y := double()
	dev := openDevice(t)
	vm, err := devicevm.New(g, dev)
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()

	// A copy: the caller may change what it gave.
	v := vector(1, 2, 3)
	let(t, vm, x, v)
	v.Memset(7.0)
	wantY(t, vm, y, 2, 4, 6)
	wantY(t, vm, y, 2, 4, 6)

	// gorgonia.Let counts from now on, and follows its tensor.
	bound := vector(4, 5, 6)
	if err := G.Let(x, bound); err != nil {
		t.Fatal(err)
	}
	wantY(t, vm, y, 8, 10, 12)
	bound.Memset(1.0)
	wantY(t, vm, y, 2, 2, 2)
	let(t, vm, x, vector(3, 3, 3))
	wantY(t, vm, y, 6, 6, 6)

	// A tensor on the device, of another stream, is used where it is.
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.ToDevice(vector(1, 0, -1), true)
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, x, d)
	wantY(t, vm, y, 2, 0, -2)
	if err := s.ToDeviceInto(d, vector(5, 5, 5), true); err != nil {
		t.Fatal(err)
	}
	wantY(t, vm, y, 10, 10, 10)
	compare(t, trace{floats(t, value(t, vm, x))}, trace{{5, 5, 5}}, 0)
	if err := G.Let(x, G.Value(d)); err != nil {
		t.Fatal(err)
	}
	wantY(t, vm, y, 10, 10, 10)
	if err := d.Release(); err != nil {
		t.Fatal(err)
	}
	if err := vm.RunAll(); !errors.Is(err, asynccopy.ErrReleased) {
		t.Errorf("RunAll with a released tensor: %v", err)
	}

	// A column of a matrix.
	m := tensor.New(tensor.WithShape(3, 2), tensor.WithBacking([]float64{1, 2, 3, 4, 5, 6}))
	column, err := m.Slice(nil, tensor.S(1))
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, x, column.(*tensor.Dense))
	wantY(t, vm, y, 4, 8, 12)
	compare(t, trace{floats(t, value(t, vm, x))}, trace{{2, 4, 6}}, 0)
}

func let(t *testing.T, vm *devicevm.VM, n *G.Node, v G.Value) {
	t.Helper()
	if err := vm.Let(n, v); err != nil {
		t.Fatal(err)
	}
}

func TestLetRefuses(t *testing.T) {
	leak.Check(t)
	g, x, y := double()
	dev := openDevice(t)
	vm, err := devicevm.New(g, dev)
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()
	let(t, vm, x, vector(1, 2, 3))

	other := openDevice(t)
	s, err := other.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	foreign, err := s.ToDevice(vector(1, 2, 3), false)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Release()
	released, err := pintensor.New(tensor.Float64, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := pintensor.Release(released); err != nil {
		t.Fatal(err)
	}
	masked := vector(1, 2, 3)
	masked.SetMask([]bool{true, false, false})
	_, stranger, _ := double()
	unnamed := G.NewVector(G.NewGraph(), tensor.Float64, G.WithShape(3))
	for _, c := range []struct {
		name string
		node *G.Node
		v    G.Value
		is   error
		text string
	}{
		{"shape", x, vector(1, 2), devicevm.ErrMismatch, `"x" float64(3): a value of shape (2)`},
		{"axes", x, tensor.New(tensor.WithShape(3, 1), tensor.WithBacking([]float64{1, 2, 3})), devicevm.ErrMismatch, "(3, 1)"},
		{"dtype", x, tensor.New(tensor.WithBacking([]float32{1, 2, 3})), devicevm.ErrMismatch, "float32"},
		{"nil", x, nil, devicevm.ErrNoValue, "nil"},
		{"nil Dense", x, (*tensor.Dense)(nil), devicevm.ErrNoValue, "nil"},
		{"nil node", nil, vector(1, 2, 3), nil, "the node is nil"},
		{"not an input", y, vector(1, 2, 3), nil, "not an input"},
		{"another graph", stranger, vector(1, 2, 3), nil, "not in the VM's graph"},
		{"no name", unnamed, vector(1, 2, 3), nil, "node 0 (without a name) is not in the VM's graph"},
		{"another device", x, foreign, nil, "one Device, of one call"},
		{"mask", x, masked, devicevm.ErrUnsupported, "mask"},
		{"released", x, released, devicevm.ErrNoValue, "released"},
	} {
		err := vm.Let(c.node, c.v)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "devicevm: Let: ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	wantY(t, vm, y, 2, 4, 6)
	if err := G.Let(x, released); err != nil {
		t.Fatal(err)
	}
	if err := vm.RunAll(); !errors.Is(err, devicevm.ErrNoValue) {
		t.Errorf("RunAll with a released tensor bound to the node: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	g, x, _ := double()
	_, stranger, _ := double()
	n := newNetwork(t, models[0], tensor.Float64, 2)
	for _, c := range []struct {
		name string
		g    *G.ExprGraph
		dev  *asynccopy.Device
		opt  devicevm.Option
		text string
	}{
		{"nil graph", nil, dev, devicevm.WithEval(), "the graph is nil"},
		{"nil device", g, nil, devicevm.WithEval(), "the device is nil"},
		{"nil option", g, dev, nil, "option 0 is nil"},
		{"nil value node", g, dev, devicevm.WithValues(x, nil), "WithValues: node 1 is nil"},
		{"foreign value node", g, dev, devicevm.WithValues(stranger), "WithValues: node"},
		{"nil solver", g, dev, devicevm.WithSolver(nil), "WithSolver: the solver is nil"},
		{"unknown solver", n.graph, dev, devicevm.WithSolver(G.NewAdaGradSolver()), "AdaGradSolver"},
		{"no gradients", g, dev, devicevm.WithSolver(G.NewVanillaSolver()), "gorgonia.Grad"},
		{"no gradient of x", g, dev, devicevm.WithSolver(G.NewVanillaSolver(), x), "it has no gradient"},
		{"read every 0", g, dev, devicevm.WithReadEvery(0), "WithReadEvery: n is 0"},
		{"nil VM", g, dev, devicevm.WithWeightsFrom(nil), "WithWeightsFrom: the VM is nil"},
	} {
		_, err := devicevm.New(c.g, c.dev, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "devicevm: New: ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRunAllRefuses(t *testing.T) {
	leak.Check(t)
	g, x, y := double()
	vm := newVM(t, g)
	var node *devicevm.NodeError
	if err := vm.RunAll(); !errors.Is(err, devicevm.ErrNoValue) || !errors.As(err, &node) || node.Node != x {
		t.Errorf("without a value: %v", err)
	}
	if v, err := vm.Value(y); v != nil || !errors.Is(err, devicevm.ErrNoValue) {
		t.Errorf("Value before a run: %v, %v", v, err)
	}
	if _, err := vm.Grad(x); !errors.Is(err, devicevm.ErrNotKept) {
		t.Errorf("Grad without a gradient: %v", err)
	}
	let(t, vm, x, vector(1, 2, 3))
	wantY(t, vm, y, 2, 4, 6)
	G.Must(G.Neg(x))
	if err := vm.RunAll(); !errors.Is(err, devicevm.ErrGraphChanged) {
		t.Errorf("with a graph that has grown: %v", err)
	}
	if err := vm.Close(); err != nil {
		t.Error(err)
	}
	if err := vm.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	for name, err := range map[string]error{"RunAll": vm.RunAll(), "Let": vm.Let(x, vector(1, 2, 3)), "Sync": vm.Sync(), "zero": new(devicevm.VM).RunAll()} {
		if err == nil || name != "zero" && !errors.Is(err, devicevm.ErrClosed) {
			t.Errorf("%s of a closed VM: %v", name, err)
		}
	}
	if _, err := vm.Value(x); !errors.Is(err, devicevm.ErrClosed) {
		t.Errorf("Value of a closed VM: %v", err)
	}
	vm.Reset()
}

func TestOutOfMemory(t *testing.T) {
	leak.Check(t)
	for _, memory := range []int64{1 << 10, 20 << 10, 200 << 10} {
		dev := open(t, soft.New(soft.Config{Memory: memory}))
		n := newNetwork(t, models[2], tensor.Float64, 8)
		vm, err := devicevm.New(n.graph, dev)
		if err == nil {
			n.feed(t, 0, func(n *G.Node, v G.Value) error { return G.Let(n, v) })
			err = vm.RunAll()
			if err := vm.Close(); err != nil {
				t.Error(err)
			}
		}
		if !errors.Is(err, asynccopy.ErrOutOfMemory) {
			t.Errorf("%d bytes: %v", memory, err)
		}
	}
}

func TestClosedDevice(t *testing.T) {
	leak.Check(t)
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		t.Fatal(err)
	}
	g, x, _ := double()
	vm, err := devicevm.New(g, dev)
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, x, vector(1, 2, 3))
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	if err := vm.RunAll(); !errors.Is(err, asynccopy.ErrClosed) {
		t.Errorf("RunAll: %v", err)
	}
	if err := vm.Let(x, vector(1, 2, 3)); !errors.Is(err, asynccopy.ErrClosed) {
		t.Errorf("Let: %v", err)
	}
	if err := vm.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := devicevm.New(g, dev); !errors.Is(err, asynccopy.ErrClosed) {
		t.Errorf("New: %v", err)
	}
}

// Whatever fails in a Let, the value that was there is there, and what it would have been replaced with is not, also if the
// copy happens afterwards.
func TestFailedLetChangesNothing(t *testing.T) {
	leak.Check(t)
	faulty := drivertest.NewFaulty(kinds[kind].driver(t))
	g, x, y := double()
	vm := vmOn(t, g, open(t, faulty))
	waits := func() {
		for _, call := range []string{"SyncStream", "SyncEvent", "Query"} {
			faulty.FailAll(call)
		}
	}
	// heal undoes the faults, and lets the device tell of what failed meanwhile.
	heal := func() {
		faulty.Heal()
		for range 5 {
			if _, err := vm.Value(x); err == nil || errors.Is(err, devicevm.ErrNoValue) {
				return
			}
		}
		t.Fatal("the device does not recover")
	}
	waits()
	first := vm.Let(x, vector(9, 9, 9))
	heal()
	if v, err := vm.Value(x); first != nil && !errors.Is(err, devicevm.ErrNoValue) {
		t.Errorf("the first Let: %v; and then the value is %v, %v", first, v, err)
	}
	let(t, vm, x, vector(1, 2, 3))
	let(t, vm, x, vector(4, 5, 6))
	failures := 0
	old := []float64{8, 10, 12}
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			failures++
			if !errors.Is(err, drivertest.ErrInjected) {
				t.Errorf("%s: %v", what, err)
			}
		} else {
			old = []float64{18, 18, 18}
		}
		heal()
		wantY(t, vm, y, old...)
		let(t, vm, x, vector(4, 5, 6))
		old = []float64{8, 10, 12}
		wantY(t, vm, y, old...)
	}
	waits()
	check("waiting fails", vm.Let(x, vector(9, 9, 9)))
	for nth, fine := 1, 0; fine < 3; nth++ {
		before := faulty.Calls("")
		faulty.FailNth("", nth, nil)
		err := vm.Let(x, vector(9, 9, 9))
		if fine++; faulty.Calls("")-before >= nth {
			fine = 0
		}
		check(fmt.Sprintf("call %d fails", nth), err)
	}
	if failures == 0 {
		t.Error("nothing failed")
	}
}
