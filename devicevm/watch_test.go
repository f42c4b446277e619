package devicevm_test

// This file has results: NaN watches, ReadEvery, what is kept, and operations that fail.

import (
	"errors"
	"fmt"
	"hash"
	"math"
	"strings"
	"testing"

	"github.com/chewxy/hm"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func TestWatches(t *testing.T) {
	leak.Check(t)
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("x"))
	log := G.Must(G.Log(x))
	y := G.Must(G.Square(log))
	feed := func(a, b float32) *tensor.Dense { return tensor.New(tensor.WithBacking([]float32{a, b})) }
	vm := newVM(t, g, devicevm.WithNaNWatch(), devicevm.WithInfWatch())
	for _, c := range []struct {
		b  float32
		is error
	}{{-1, devicevm.ErrNaN}, {0, devicevm.ErrInf}, {1, nil}} {
		let(t, vm, x, feed(1, c.b))
		err := vm.RunAll()
		var node *devicevm.NodeError
		switch {
		case c.is == nil && err != nil:
			t.Error(err)
		case c.is != nil && (!errors.Is(err, c.is) || !errors.As(err, &node) || node.Node != log || !strings.Contains(err.Error(), "element 1 of 2")):
			t.Errorf("log of %v: %v", c.b, err)
		}
	}
	compare(t, trace{floats(t, y.Value())}, trace{{0, 0}}, 0)
}

func TestReadEvery(t *testing.T) {
	leak.Check(t)
	g, x, y := double()
	var read G.Value
	G.Read(y, &read)
	vm := newVM(t, g, devicevm.WithReadEvery(3))
	for k := 1; k <= 7; k++ {
		let(t, vm, x, vector(float64(k), 0, 0))
		run(t, vm)
		want := math.NaN()
		if last := k / 3 * 3; last > 0 {
			want = 2 * float64(last)
		}
		if read == nil != math.IsNaN(want) || read != nil && (floats(t, read)[0] != want || floats(t, y.Value())[0] != want) {
			t.Errorf("after run %d: %v, want %v", k, read, want)
		}
		if got := floats(t, value(t, vm, y))[0]; got != 2*float64(k) {
			t.Errorf("Value after run %d: %v", k, got)
		}
	}
}

func TestKeeps(t *testing.T) {
	leak.Check(t)
	build := func() (g *G.ExprGraph, x, hidden *G.Node) {
		g = G.NewGraph()
		x = G.NewVector(g, tensor.Float64, G.WithShape(2), G.WithName("x"), G.WithValue(vector(1, 2)))
		hidden = G.Must(G.Neg(x))
		G.Must(G.Square(hidden))
		return g, x, hidden
	}
	g, x, hidden := build()
	vm := newVM(t, g)
	run(t, vm)
	if _, err := vm.Value(hidden); !errors.Is(err, devicevm.ErrNotKept) || hidden.Value() != nil {
		t.Errorf("a value in between: %v, %v", hidden.Value(), err)
	}
	compare(t, trace{floats(t, value(t, vm, x))}, trace{{1, 2}}, 0)

	g, _, hidden = build()
	vm = newVM(t, g, devicevm.WithValues(hidden))
	run(t, vm)
	compare(t, trace{floats(t, value(t, vm, hidden)), floats(t, hidden.Value())}, trace{{-1, -2}, {-1, -2}}, 0)
}

// custom is an operation of the user's own: the sum of two vectors, unless it is to fail.
type custom struct{ fail *string }

func (custom) Arity() int { return 2 }
func (custom) Type() hm.Type {
	a := G.TensorType{Dims: 1, Of: hm.TypeVariable('a')}
	return hm.NewFnType(a, a, a)
}
func (custom) InferShape(in ...G.DimSizer) (tensor.Shape, error) { return in[0].(tensor.Shape), nil }
func (custom) ReturnsPtr() bool                                  { return false }
func (custom) CallsExtern() bool                                 { return false }
func (custom) OverwritesInput() int                              { return -1 }
func (custom) WriteHash(h hash.Hash)                             { fmt.Fprint(h, "custom") }
func (custom) Hashcode() uint32                                  { return 7 }
func (custom) String() string                                    { return "custom" }
func (c custom) Do(v ...G.Value) (G.Value, error) {
	switch *c.fail {
	case "panic":
		panic("in a rage")
	case "error":
		return nil, errors.New("no")
	case "nil":
		return nil, nil
	case "shape":
		return vector(1), nil
	}
	a := v[0].(*tensor.Dense)
	sum, err := tensor.Add(a, v[1], tensor.UseUnsafe()) // it writes to its operand
	return sum.(G.Value), err
}

func TestCustomOperation(t *testing.T) {
	leak.Check(t)
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float64, G.WithShape(2), G.WithName("x"), G.WithValue(vector(1, 2)))
	fail := ""
	y := G.Must(G.ApplyOp(custom{&fail}, x, x))
	z := G.Must(G.Neg(y))
	vm := newVM(t, g)
	if list := vm.Fallbacks(); len(list) != 1 || list[0].Node != y || list[0].Op != "custom" {
		t.Errorf("fallbacks: %v", list)
	}
	for _, fail = range []string{"panic", "error", "nil", "shape", ""} {
		err := vm.RunAll()
		var node *devicevm.NodeError
		if (err == nil) != (fail == "") || err != nil && (!errors.As(err, &node) || node.Node != y) {
			t.Errorf("%q: %v", fail, err)
		}
	}
	compare(t, trace{floats(t, z.Value()), floats(t, x.Value())}, trace{{-2, -4}, {1, 2}}, 0)
}

// Whatever call of the driver fails: an error, nothing left, and the VM works afterwards.
func TestDriverFails(t *testing.T) {
	leak.Check(t)
	m := models[2]
	if kinds[kind].name == "emulated" {
		m = models[0] // emulated, a convolution takes long
	}
	for call, fine := 0, 0; fine < 5; call++ { // further calls than there are fail nothing
		fine++
		faulty := drivertest.NewFaulty(kinds[kind].driver(t))
		dev := open(t, faulty)
		n := newNetwork(t, m, tensor.Float32, 4)
		n.feed(t, 0, func(n *G.Node, v G.Value) error { return G.Let(n, v) })
		faulty.FailNth("", call+1, nil)
		vm, err := devicevm.New(n.graph, dev, devicevm.WithSolver(G.NewAdamSolver()))
		if err != nil {
			fine = 0
			if !errors.Is(err, drivertest.ErrInjected) {
				t.Errorf("call %d: New: %v", call, err)
			}
			continue
		}
		if err := vm.RunAll(); err != nil {
			fine = 0
			if !errors.Is(err, drivertest.ErrInjected) {
				t.Errorf("call %d: RunAll: %v", call, err)
			}
		}
		faulty.Heal()
		run(t, vm)
		if err := vm.Close(); err != nil {
			t.Errorf("call %d: Close: %v", call, err)
		}
	}
}

// A run that could not be waited for has what it needs when it happens, which is during the next one.
func TestWaitingFails(t *testing.T) {
	leak.Check(t)
	faulty := drivertest.NewFaulty(kinds[kind].driver(t))
	g, x, y := double()
	vm, err := devicevm.New(g, open(t, faulty))
	if err != nil {
		t.Fatal(err)
	}
	if err := G.Let(x, vector(1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"SyncStream", "SyncEvent", "Query"} {
		faulty.FailAll(call)
	}
	if err := vm.RunAll(); !errors.Is(err, drivertest.ErrInjected) {
		t.Fatalf("RunAll: %v", err)
	}
	faulty.Heal()
	let(t, vm, x, vector(4, 5, 6))
	wantY(t, vm, y, 8, 10, 12)
	for _, call := range []string{"SyncStream", "SyncEvent", "Query"} {
		faulty.FailAll(call)
	}
	if _, err := vm.Value(y); !errors.Is(err, drivertest.ErrInjected) {
		t.Errorf("Value: %v", err)
	}
	faulty.Heal()
	let(t, vm, x, vector(7, 8, 9))
	wantY(t, vm, y, 14, 16, 18)
	if err := vm.Close(); err != nil {
		t.Error(err)
	}
}
