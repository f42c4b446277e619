package devicevm_test

// This file compares the solvers on the device with Gorgonia's own.

import (
	"math"
	"testing"

	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// mlp has weights large enough for regularisation to show.
var mlp = models[1]

// line has scalar weights.
var line = model{"line", tensor.Shape{1}, tensor.Shape{1}, func(b *builder, x, y *G.Node) *G.Node {
	slope := b.scalar("slope", 0.7)
	offset := b.scalar("offset", -0.3)
	d := b.must(G.Sub(b.must(G.Add(b.must(G.HadamardProd(x, slope)), offset)), y))
	return b.must(G.Mean(b.must(G.Square(d))))
}}

func (b *builder) scalar(name string, v float64) *G.Node {
	n := G.NewScalar(b.graph, b.dt, G.WithName(name), G.WithValue(zero(b.dt, v)))
	b.weights = append(b.weights, n)
	return n
}

func TestSolvers(t *testing.T) {
	opts := []G.SolverOpt{G.WithBatchSize(4), G.WithClip(0.02), G.WithL2Reg(0.01), G.WithL1Reg(0.02)}
	for _, c := range []struct {
		name   string
		make   func() G.Solver
		models []model
	}{
		{"SGD", func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.1)) }, []model{mlp, line}},
		{"SGD/all", func() G.Solver { return G.NewVanillaSolver(append(opts, G.WithLearnRate(0.1))...) }, []model{mlp, line}},
		{"Momentum", func() G.Solver { return G.NewMomentum(G.WithLearnRate(0.05), G.WithMomentum(0.8)) }, []model{mlp}},
		{"Momentum/clip", func() G.Solver { return G.NewMomentum(G.WithLearnRate(0.05), G.WithBatchSize(4), G.WithClip(0.02)) }, []model{mlp}},
		{"RMSProp", func() G.Solver { return G.NewRMSPropSolver(G.WithLearnRate(0.01), G.WithRho(0.9)) }, []model{mlp, line}},
		{"RMSProp/all", func() G.Solver {
			return G.NewRMSPropSolver(G.WithLearnRate(0.01), G.WithClip(0.02), G.WithL2Reg(0.01), G.WithEps(1e-6))
		}, []model{mlp}},
		{"Adam", func() G.Solver { return G.NewAdamSolver(G.WithLearnRate(0.01)) }, []model{mlp, line}},
		{"Adam/all", func() G.Solver {
			return G.NewAdamSolver(append(opts, G.WithLearnRate(0.01), G.WithBeta1(0.8), G.WithBeta2(0.99), G.WithEps(1e-6))...)
		}, []model{mlp, line}},
	} {
		for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
			for _, m := range c.models {
				t.Run(c.name+"/"+m.name+"/"+dt.String(), func(t *testing.T) {
					leak.Check(t)
					want := trainTape(t, newNetwork(t, m, dt, 8), c.make(), steps)
					got := trainDevice(t, newNetwork(t, m, dt, 8), openDevice(t), c.make(), true, steps)
					compare(t, got, want, tolerance(dt))
				})
			}
		}
	}
}

// Gorgonia's momentum regularises by the momentum.
func TestMomentumRegularises(t *testing.T) {
	leak.Check(t)
	solver := func() G.Solver { return G.NewMomentum(G.WithLearnRate(0.05), G.WithL1Reg(0.02), G.WithL2Reg(0.3)) }
	want := trainTape(t, newNetwork(t, mlp, tensor.Float64, 8), solver(), steps)
	got := trainDevice(t, newNetwork(t, mlp, tensor.Float64, 8), openDevice(t), solver(), true, steps, devicevm.WithUpstreamBugs())
	compare(t, got, want, 1e-5)

	// Rightly, a weight whose gradient is 0 decays: w += m with m = momentum m - rate (l2 w + l1 sign(w)).
	g := G.NewGraph()
	w := G.NewVector(g, tensor.Float64, G.WithShape(2), G.WithName("w"), G.WithValue(tensor.New(tensor.WithBacking([]float64{2, -3}))))
	zero := G.NewConstant(tensor.New(tensor.WithBacking([]float64{0, 0})))
	cost := G.Must(G.Sum(G.Must(G.HadamardProd(w, zero))))
	if _, err := G.Grad(cost, w); err != nil {
		t.Fatal(err)
	}
	vm := newVM(t, g, devicevm.WithSolver(solver()))
	wantW, m := []float64{2, -3}, []float64{0, 0}
	for range 5 {
		run(t, vm)
		for i, x := range wantW {
			m[i] = 0.9*m[i] - 0.05*(0.02*math.Copysign(1, x)+0.3*x)
			wantW[i] += m[i]
		}
	}
	compare(t, trace{floats(t, value(t, vm, w))}, trace{wantW}, 1e-12)
}

// Gorgonia's AdamW changes nothing; ours is the paper's.
func TestAdamW(t *testing.T) {
	leak.Check(t)
	solver := func() G.Solver { return G.NewAdamW(G.WithLearnRate(0.02), G.WithRho(0.1)) }
	n := newNetwork(t, mlp, tensor.Float64, 8)
	before := floats(t, n.weights[0].Value())
	trainTape(t, n, solver(), 1)
	compare(t, trace{floats(t, n.weights[0].Value())}, trace{before}, 0)

	n = newNetwork(t, mlp, tensor.Float64, 8)
	if _, err := devicevm.New(n.graph, openDevice(t), devicevm.WithSolver(solver()), devicevm.WithUpstreamBugs()); err == nil {
		t.Error("WithUpstreamBugs takes an AdamW")
	}
	tr := trainDevice(t, n, openDevice(t), solver(), true, 3)
	perStep := 1 + 2*len(n.weights)
	w := before
	m, v := make([]float64, len(w)), make([]float64, len(w))
	for k := range 3 {
		grad, after := tr[k*perStep+1], tr[k*perStep+1+len(n.weights)]
		step := float64(k + 1)
		for i, g := range grad {
			m[i] = 0.9*m[i] + 0.1*g
			v[i] = 0.999*v[i] + 0.001*g*g
			w[i] -= 0.02 * 0.1 * w[i]
			w[i] -= 0.02 * m[i] / (1 - math.Pow(0.9, step)) / (math.Sqrt(v[i]/(1-math.Pow(0.999, step))) + 1e-8)
		}
		compare(t, trace{after}, trace{w}, 1e-9)
	}
}

// A rate that is changed between two runs is the next run's.
func TestLearnRateChanges(t *testing.T) {
	leak.Check(t)
	g := G.NewGraph()
	w := G.NewScalar(g, tensor.Float64, G.WithName("w"), G.WithValue(1.0))
	if _, err := G.Grad(G.Must(G.Mul(w, G.NewConstant(1.0))), w); err != nil {
		t.Fatal(err)
	}
	solver := G.NewVanillaSolver(G.WithLearnRate(0.5))
	vm := newVM(t, g, devicevm.WithSolver(solver))
	run(t, vm)
	G.WithLearnRate(0.125)(solver)
	run(t, vm)
	if got := floats(t, value(t, vm, w))[0]; got != 1-0.5-0.125 {
		t.Errorf("w is %v, want %v", got, 1-0.5-0.125)
	}
}

// newVM makes a VM on a device of its own, both closed by the test.
func newVM(t testing.TB, g *G.ExprGraph, opts ...devicevm.Option) *devicevm.VM {
	t.Helper()
	vm, err := devicevm.New(g, openDevice(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
	})
	return vm
}

func run(t testing.TB, vm *devicevm.VM) {
	t.Helper()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
}

func value(t testing.TB, vm *devicevm.VM, n *G.Node) G.Value {
	t.Helper()
	v, err := vm.Value(n)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
