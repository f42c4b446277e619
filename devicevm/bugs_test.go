package devicevm_test

// This file has Gorgonia's mistakes: what is right, and that WithUpstreamBugs repeats them.

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// SoftMax of rows that differ much.
func TestSoftMaxOfLargeNumbers(t *testing.T) {
	leak.Check(t)
	build := func() (*G.ExprGraph, *G.Node) {
		g := G.NewGraph()
		x := G.NewMatrix(g, tensor.Float64, G.WithShape(2, 2), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float64{0, 0, 1000, 0}))))
		return g, G.Must(G.SoftMax(x))
	}
	g, y := build()
	run(t, newVM(t, g))
	compare(t, trace{floats(t, y.Value())}, trace{{0.5, 0.5, 1, 0}}, 1e-9)

	g, y = build()
	vm := newVM(t, g, devicevm.WithUpstreamBugs())
	run(t, vm)
	if v := floats(t, y.Value()); !math.IsNaN(v[2]) {
		t.Errorf("Gorgonia's SoftMax gives %v: it is right now, so is there a bug left to document?", v)
	}
	if list := vm.Fallbacks(); len(list) != 1 || list[0].Node != y {
		t.Errorf("fallbacks: %v", list)
	}
}

// The gradient of the softmax of a column vector.
func TestSoftMaxOfColumn(t *testing.T) {
	leak.Check(t)
	build := func() (*G.ExprGraph, *G.Node) {
		g := G.NewGraph()
		x := G.NewMatrix(g, tensor.Float64, G.WithShape(2, 1), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(2, 1), tensor.WithBacking([]float64{0, 0}))))
		w := G.NewConstant(tensor.New(tensor.WithShape(2, 1), tensor.WithBacking([]float64{1, 3})))
		if _, err := G.Grad(G.Must(G.Sum(G.Must(G.HadamardProd(G.Must(G.SoftMax(x)), w)))), x); err != nil {
			t.Fatal(err)
		}
		return g, x
	}
	for _, c := range []struct {
		opts []devicevm.Option
		want []float64
	}{{nil, []float64{-0.5, 0.5}}, {[]devicevm.Option{devicevm.WithUpstreamBugs()}, []float64{0.25, 0.75}}} {
		g, x := build()
		vm := newVM(t, g, c.opts...)
		run(t, vm)
		got, err := x.Grad()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, trace{floats(t, got)}, trace{c.want}, 1e-9)
	}
}

// MaxPool2D with four different paddings, and with NaN.
func TestMaxPoolPadding(t *testing.T) {
	leak.Check(t)
	build := func(v ...float64) (*G.ExprGraph, *G.Node, *G.Node) {
		g := G.NewGraph()
		x := G.NewTensor(g, tensor.Float64, 4, G.WithShape(1, 1, 2, 2), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(1, 1, 2, 2), tensor.WithBacking(v))))
		y := G.Must(G.MaxPool2D(x, tensor.Shape{2, 2}, []int{1, 0, 0, 0}, []int{1, 1})) // a row of padding above
		if _, err := G.Grad(G.Must(G.Sum(y)), x); err != nil {
			t.Fatal(err)
		}
		return g, x, y
	}
	g, x, y := build(1, 2, 3, 4)
	vm := newVM(t, g, devicevm.WithValues(y))
	run(t, vm)
	compare(t, trace{floats(t, y.Value()), floats(t, value(t, vm, x.Deriv()))}, trace{{2, 4}, {0, 1, 0, 1}}, 0)

	g, _, y = build(1, 2, 3, 4)
	run(t, newVM(t, g, devicevm.WithValues(y), devicevm.WithUpstreamBugs()))
	compare(t, trace{floats(t, y.Value())}, trace{{4, 4}}, 0)

	nan := math.NaN()
	g, _, y = build(nan, nan, nan, nan)
	run(t, newVM(t, g, devicevm.WithValues(y)))
	if v := floats(t, y.Value()); !math.IsNaN(v[0]) || !math.IsNaN(v[1]) {
		t.Errorf("the largest of NaNs is %v", v)
	}
	g, _, _ = build(nan, nan, nan, nan)
	bad := newVM(t, g, devicevm.WithUpstreamBugs())
	var node *devicevm.NodeError
	if err := bad.RunAll(); !errors.As(err, &node) || !strings.Contains(err.Error(), "panic") {
		t.Errorf("an operation that panics: %v", err)
	}
}

// sequence makes the dropouts of a graph draw the same numbers each time.
func sequence(g *G.ExprGraph) {
	for _, n := range g.AllNodes() {
		op := reflect.ValueOf(n.Op())
		if n.Op() == nil || op.Kind() != reflect.Pointer || op.Elem().Type().Name() != "dropoutOp" {
			continue
		}
		x := uint64(1)
		f := op.Elem().FieldByName("rndGen")
		next := func() float64 {
			x = x*6364136223846793005 + 1442695040888963407
			return float64(x>>11) / (1 << 53)
		}
		reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(next).Convert(f.Type()))
	}
}

// With its mistakes, networks with dropout are Gorgonia's to the last bit but for sums.
func TestUpstreamBugs(t *testing.T) {
	leak.Check(t)
	m := model{"dropout", tensor.Shape{2, 4, 4}, tensor.Shape{3}, func(b *builder, x, y *G.Node) *G.Node {
		x = b.must(G.Rectify(b.conv(x, 3)))
		x = b.must(G.Dropout(x, 0.3))
		return b.crossEntropy(b.dense(b.flatten(x), 3, true), y)
	}}
	for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
		solver := func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.05)) }
		tape, ours := newNetwork(t, m, dt, 8), newNetwork(t, m, dt, 8)
		sequence(tape.graph)
		sequence(ours.graph)
		want := trainTape(t, tape, solver(), steps)
		got := trainDevice(t, ours, openDevice(t), solver(), true, steps, devicevm.WithUpstreamBugs())
		compare(t, got, want, tolerance(dt))
	}
}

// A scalar's sign.
func TestSignOfZero(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct {
		opts []devicevm.Option
		want float64
	}{{nil, 0}, {[]devicevm.Option{devicevm.WithUpstreamBugs()}, 1}} {
		g := G.NewGraph()
		y := G.Must(G.Sign(G.NewScalar(g, tensor.Float64, G.WithName("x"), G.WithValue(0.0))))
		run(t, newVM(t, g, c.opts...))
		if got := floats(t, y.Value())[0]; got != c.want {
			t.Errorf("the sign of 0 is %v, want %v", got, c.want)
		}
	}
}

// single is a vector of one element.
func single(x float64) *tensor.Dense {
	return tensor.New(tensor.WithShape(1), tensor.WithBacking([]float64{x}))
}

// Batch normalisation's gradient when evaluating.
func TestBatchNormEval(t *testing.T) {
	leak.Check(t)
	build := func() (*G.ExprGraph, *G.Node) {
		g := G.NewGraph()
		x := G.NewTensor(g, tensor.Float64, 4, G.WithShape(2, 1, 1, 2), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(2, 1, 1, 2), tensor.WithBacking([]float64{1, 2, 3, 5}))))
		one := G.NewConstant(tensor.Ones(tensor.Float64, 2, 1, 1, 2))
		y, _, _, op, err := G.BatchNorm(x, one, one, 0.9, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := op.SetStats(single(7), single(4)); err != nil {
			t.Fatal(err)
		}
		if _, err := G.Grad(G.Must(G.Sum(y)), x); err != nil {
			t.Fatal(err)
		}
		return g, x
	}
	g, x := build()
	run(t, newVM(t, g, devicevm.WithEval()))
	got, err := x.Grad()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, trace{floats(t, got)}, trace{{0.5, 0.5, 0.5, 0.5}}, 1e-12)

	g, x = build()
	run(t, newVM(t, g, devicevm.WithEval(), devicevm.WithUpstreamBugs()))
	if got, err = x.Grad(); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(floats(t, got), []float64{0.5, 0.5, 0.5, 0.5}) {
		t.Error("Gorgonia's gradient is right now, so is there a bug left to document?")
	}
}
