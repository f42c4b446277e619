package devicevm_test

// This file has graphs that share weights, dropout, batch normalisation, and what else tells training from
// evaluating.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/leak"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// normed has a batch normalisation with scale and bias per channel, which do not depend on the batch size.
var normed = model{"normed", tensor.Shape{2, 4, 4}, tensor.Shape{3}, func(b *builder, x, y *G.Node) *G.Node {
	x = b.conv(x, 3)
	scale, bias := b.weight(0.5, 1, 3, 1, 1), b.weight(0.5, 1, 3, 1, 1)
	plain, _, _, _, err := G.BatchNorm(x, G.NewConstant(tensor.Ones(b.dt, x.Shape()...)), G.NewConstant(tensor.New(tensor.Of(b.dt), tensor.WithShape(x.Shape()...))), 0.9, 1e-5)
	x = b.must(plain, err)
	x = b.must(G.BroadcastHadamardProd(x, scale, nil, []byte{0, 2, 3}))
	x = b.must(G.BroadcastAdd(x, bias, nil, []byte{0, 2, 3}))
	x = b.must(G.Dropout(b.must(G.Rectify(x)), 0.3))
	return b.crossEntropy(b.dense(b.flatten(x), 3, true), y)
}}

// The evaluating VM has the weights of the training one, at every time, and at another batch size.
func TestWeightsFrom(t *testing.T) {
	for _, own := range []bool{true, false} {
		leak.Check(t)
		dev := openDevice(t)
		solver := G.NewMomentum(G.WithLearnRate(0.05))
		train := newNetwork(t, normed, tensor.Float64, 8)
		var opts []devicevm.Option
		if own {
			opts = append(opts, devicevm.WithSolver(solver))
		}
		trainer, err := devicevm.New(train.graph, dev, opts...)
		if err != nil {
			t.Fatal(err)
		}
		eval := newNetwork(t, normed, tensor.Float64, 5)
		evaluator, err := devicevm.New(eval.graph, dev, devicevm.WithEval(), devicevm.WithWeightsFrom(trainer))
		if err != nil {
			t.Fatal(err)
		}
		for k := range 5 {
			train.feed(t, k, trainer.Let)
			run(t, trainer)
			if !own {
				if err := solver.Step(G.NodesToValueGrads(train.weights)); err != nil {
					t.Fatal(err)
				}
			}
			eval.feed(t, 100, evaluator.Let)
			run(t, evaluator)
		}
		got := trace{eval.cost.floats(t)}
		if err := trainer.Close(); err != nil {
			t.Fatal(err)
		}
		run(t, evaluator) // it still has the weights
		got = append(got, eval.cost.floats(t))
		if err := evaluator.Close(); err != nil {
			t.Fatal(err)
		}

		// The same weights and statistics in a graph of its own, on tapeMachine.
		ref := newNetwork(t, normed, tensor.Float64, 5)
		for i, w := range ref.weights {
			if err := G.Let(w, train.weights[i].Value()); err != nil {
				t.Fatal(err)
			}
		}
		mean, variance := norm(train.graph).Stats()
		if err := norm(ref.graph).SetStats(mean, variance); err != nil {
			t.Fatal(err)
		}
		tape := G.NewTapeMachine(ref.graph, G.EvalMode())
		ref.feed(t, 100, func(n *G.Node, v G.Value) error { return G.Let(n, v) })
		if err := tape.RunAll(); err != nil {
			t.Fatal(err)
		}
		want := ref.cost.floats(t)
		compare(t, got, trace{want, want}, 1e-9)
		tape.Close()
	}
}

// norm returns the batch normalisation of a graph.
func norm(g *G.ExprGraph) *G.BatchNormOp {
	for _, n := range g.AllNodes() {
		if op, ok := n.Op().(*G.BatchNormOp); ok {
			return op
		}
	}
	return nil
}

func TestWeightsFromRefuses(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	n := newNetwork(t, models[2], tensor.Float64, 8)
	vm, err := devicevm.New(n.graph, dev)
	if err != nil {
		t.Fatal(err)
	}
	// Gorgonia's own scale and bias have the size of the batch.
	if _, err := devicevm.New(newNetwork(t, models[2], tensor.Float64, 5).graph, dev, devicevm.WithWeightsFrom(vm)); !errors.Is(err, devicevm.ErrMismatch) {
		t.Errorf("another shape: %v", err)
	}
	if _, err := devicevm.New(newNetwork(t, models[0], tensor.Float64, 5).graph, openDevice(t), devicevm.WithWeightsFrom(vm)); err == nil {
		t.Error("another device: no error")
	}
	g, _, _ := double()
	_, err = devicevm.New(g, dev, devicevm.WithWeightsFrom(vm))
	if !errors.Is(err, devicevm.ErrMismatch) || !strings.Contains(err.Error(), fmt.Sprintf("%q", n.weights[0].Name())) {
		t.Errorf("no weight in common: %v", err)
	}
	// One of the weights, under another name.
	g = G.NewGraph()
	var sum *G.Node
	for i, w := range n.weights {
		name := w.Name()
		if i == 1 {
			name = "typo"
		}
		v := G.NewTensor(g, w.Dtype(), w.Dims(), G.WithShape(w.Shape()...), G.WithName(name), G.WithValue(w.Value().(*tensor.Dense).Clone()))
		if s := G.Must(G.Sum(v)); sum == nil {
			sum = s
		} else {
			sum = G.Must(G.Add(sum, s))
		}
	}
	_, err = devicevm.New(g, dev, devicevm.WithWeightsFrom(vm))
	if !errors.Is(err, devicevm.ErrMismatch) || !strings.Contains(err.Error(), "typo") || !strings.Contains(err.Error(), fmt.Sprintf("%q", n.weights[1].Name())) {
		t.Errorf("a weight of another name: %v", err)
	}
	if err := vm.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := devicevm.New(n.graph, dev, devicevm.WithWeightsFrom(vm)); !errors.Is(err, devicevm.ErrClosed) {
		t.Errorf("a closed VM: %v", err)
	}
}

// dropped is a graph of dropout(x) and the gradient of its sum by x.
func dropped(dt tensor.Dtype, p float64, size int) (g *G.ExprGraph, x, y *G.Node) {
	g = G.NewGraph()
	v := tensor.New(tensor.Of(dt), tensor.WithShape(size))
	v.Memset(zero(dt, 3))
	x = G.NewVector(g, dt, G.WithShape(size), G.WithName("x"), G.WithValue(v))
	y = G.Must(G.Dropout(x, p))
	if _, err := G.Grad(G.Must(G.Sum(y)), x); err != nil {
		panic(err)
	}
	return g, x, y
}

func TestDropout(t *testing.T) {
	leak.Check(t)
	const size = 10001
	for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
		for _, p := range []float64{0, 0.25, 0.9, 1} {
			g, x, y := dropped(dt, p, size)
			vm := newVM(t, g, devicevm.WithValues(y), devicevm.WithSeed(5))
			var runs [][]float64
			for range 2 {
				run(t, vm)
				out, grad := floats(t, y.Value()), floats(t, value(t, vm, x.Deriv()))
				kept := 0
				for i, v := range out {
					want := 0.0
					if grad[i] != 0 {
						kept++
						want = 1 / (1 - p)
					}
					if math.Abs(v-3*want) > 1e-5 || math.Abs(grad[i]-want) > 1e-5 {
						t.Fatalf("p %v: element %d is %v, its gradient %v", p, i, v, grad[i])
					}
				}
				if mean := (1 - p) * size; math.Abs(float64(kept)-mean) > 5*math.Sqrt(mean*p) {
					t.Errorf("p %v: %d of %d kept", p, kept, size)
				}
				runs = append(runs, out)
			}
			if differ := !slices.Equal(runs[0], runs[1]); differ != (p > 0 && p < 1) {
				t.Errorf("p %v: two runs drop different elements: %v", p, differ)
			}
			again := newVM(t, g, devicevm.WithValues(y), devicevm.WithSeed(5))
			run(t, again)
			if !slices.Equal(floats(t, value(t, again, y)), runs[0]) {
				t.Errorf("p %v: the same seed drops other elements", p)
			}
			eval := newVM(t, g, devicevm.WithValues(y), devicevm.WithEval())
			run(t, eval)
			if v := floats(t, value(t, eval, y)); v[0] != 3 || slices.Min(v) != 3 {
				t.Errorf("p %v: evaluating drops", p)
			}
		}
	}
}

// Running statistics are those of tapeMachine, and Sync brings them to the layer.
func TestRunningStatistics(t *testing.T) {
	leak.Check(t)
	tape, ours := newNetwork(t, models[2], tensor.Float64, 8), newNetwork(t, models[2], tensor.Float64, 8)
	solver := func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.05)) }
	trainTape(t, tape, solver(), 5)
	trainDevice(t, ours, openDevice(t), solver(), true, 5)
	wantMean, wantVariance := norm(tape.graph).Stats()
	mean, variance := norm(ours.graph).Stats()
	compare(t, trace{floats(t, mean.(G.Value)), floats(t, variance.(G.Value))}, trace{floats(t, wantMean.(G.Value)), floats(t, wantVariance.(G.Value))}, 1e-9)
}

// Two VMs give the same bits.
func TestDeterministic(t *testing.T) {
	leak.Check(t)
	var traces []trace
	for range 2 {
		tr := trainDevice(t, newNetwork(t, normed, tensor.Float32, 8), openDevice(t), G.NewAdamSolver(), true, 5, devicevm.WithSeed(3))
		traces = append(traces, tr)
	}
	for i := range traces[0] {
		if !slices.Equal(traces[0][i], traces[1][i]) {
			t.Fatalf("value %d differs", i)
		}
	}
}

// Calls from several goroutines exclude each other, also of VMs that share weights.
func TestConcurrentCalls(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	n := newNetwork(t, models[0], tensor.Float32, 8)
	trainer, err := devicevm.New(n.graph, dev, devicevm.WithSolver(G.NewAdamSolver()))
	if err != nil {
		t.Fatal(err)
	}
	eval := newNetwork(t, models[0], tensor.Float32, 4)
	evaluator, err := devicevm.New(eval.graph, dev, devicevm.WithEval(), devicevm.WithWeightsFrom(trainer))
	if err != nil {
		t.Fatal(err)
	}
	n.feed(t, 0, trainer.Let)
	eval.feed(t, 1, evaluator.Let)
	run(t, trainer)
	var wg sync.WaitGroup
	for _, f := range []func() error{
		trainer.RunAll, evaluator.RunAll, trainer.Sync,
		func() error { _, err := trainer.Value(n.loss); return err },
		func() error { _, err := trainer.Grad(n.weights[0]); return err },
		func() error { _, err := trainer.State(); return err },
	} {
		for range 2 {
			wg.Go(func() {
				for range 5 {
					if err := f(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if err := errors.Join(trainer.Close(), evaluator.Close()); err != nil {
		t.Error(err)
	}
}

// counting is a BLAS that gorgonia.Use is given.
type counting struct {
	gonum.Implementation
	products *int
}

func (c counting) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, out []float32, ldc int) {
	*c.products++
	c.Implementation.Sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, out, ldc)
}

// The BLAS that a program chooses is used.
func TestGorgoniaUse(t *testing.T) {
	leak.Check(t)
	products := 0
	G.Use(counting{products: &products})
	defer G.Use(gonum.Implementation{})
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	n := newNetwork(t, models[0], tensor.Float32, 8)
	want := trainDevice(t, n, dev, G.NewVanillaSolver(), true, 2)
	if products != 2*8 { // 3 forward, 3 of weights, 2 of activations
		t.Errorf("%d products by the program's BLAS, want 16", products)
	}
	G.Use(gonum.Implementation{})
	compare(t, trainDevice(t, newNetwork(t, models[0], tensor.Float32, 8), dev, G.NewVanillaSolver(), true, 2), want, 1e-5)
	if products != 2*8 {
		t.Error("a BLAS that is no longer the program's is used")
	}
}

// A loader's batch is used where it is.
func TestBatchOnDevice(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	n := newNetwork(t, models[0], tensor.Float32, 8)
	want := trainDevice(t, newNetwork(t, models[0], tensor.Float32, 8), dev, G.NewVanillaSolver(), true, 3)
	vm, err := devicevm.New(n.graph, dev, devicevm.WithSolver(G.NewVanillaSolver()))
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Close()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got trace
	for k := range 3 {
		var batch []*asynccopy.Tensor
		n.feed(t, k, func(node *G.Node, v G.Value) error {
			d, err := s.ToDevice(v.(*tensor.Dense), true)
			if err != nil {
				return err
			}
			batch = append(batch, d)
			return vm.Let(node, d)
		})
		run(t, vm)
		got = append(got, n.cost.floats(t))
		for _, d := range batch {
			if err := d.Release(); err != nil {
				t.Fatal(err)
			}
		}
	}
	perStep := len(want) / 3
	compare(t, got, trace{want[0], want[perStep], want[2*perStep]}, 0)
}

// A weight that is trained follows gorgonia.Let, and Sync writes to the tensor that is bound then.
func TestTrainedWeightIsReplaced(t *testing.T) {
	leak.Check(t)
	g := G.NewGraph()
	first, second := vector(1, 1), vector(10, 20)
	w := G.NewVector(g, tensor.Float64, G.WithShape(2), G.WithName("w"), G.WithValue(first))
	if _, err := G.Grad(G.Must(G.Sum(w)), w); err != nil {
		t.Fatal(err)
	}
	vm := newVM(t, g, devicevm.WithSolver(G.NewVanillaSolver(G.WithLearnRate(0.5))))
	run(t, vm)
	run(t, vm)
	if err := vm.Sync(); err != nil {
		t.Fatal(err)
	}
	compare(t, trace{floats(t, first)}, trace{{0, 0}}, 0)
	if err := G.Let(w, second); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run(t, vm)
	}
	if err := vm.Sync(); err != nil {
		t.Fatal(err)
	}
	compare(t, trace{floats(t, first), floats(t, second)}, trace{{0, 0}, {9, 19}}, 0)
	let(t, vm, w, vector(5, 5))
	run(t, vm)
	compare(t, trace{floats(t, value(t, vm, w)), floats(t, second)}, trace{{4.5, 4.5}, {9, 19}}, 0)
}

// A weight may be given in any layout. Sync leaves one whose elements are in order where they are.
func TestTrainedWeightsOfAnyLayout(t *testing.T) {
	leak.Check(t)
	transposed := tensor.New(tensor.WithShape(3, 2), tensor.WithBacking([]float64{1, 2, 3, 4, 5, 6}))
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	whole := tensor.New(tensor.WithShape(4, 3), tensor.WithBacking([]float64{0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0}))
	rows, err := whole.Slice(tensor.S(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		v    *tensor.Dense
		want []float64
		same bool
	}{{transposed, []float64{0, 2, 4, 1, 3, 5}, false}, {rows.(*tensor.Dense), []float64{0, 1, 2, 3, 4, 5}, true}} {
		g := G.NewGraph()
		w := G.NewMatrix(g, tensor.Float64, G.WithShape(2, 3), G.WithName("w"), G.WithValue(c.v))
		if _, err := G.Grad(G.Must(G.Sum(w)), w); err != nil {
			t.Fatal(err)
		}
		vm := newVM(t, g, devicevm.WithSolver(G.NewVanillaSolver(G.WithLearnRate(1))))
		run(t, vm)
		if err := vm.Sync(); err != nil {
			t.Fatal(err)
		}
		compare(t, trace{floats(t, w.Value())}, trace{c.want}, 0)
		if same := w.Value() == G.Value(c.v); same != c.same {
			t.Errorf("the node has its value still: %v", same)
		}
		run(t, vm)
		if got := floats(t, value(t, vm, w))[5]; got != c.want[5]-1 {
			t.Errorf("after Sync training goes on from %v", got+1)
		}
	}
	compare(t, trace{floats(t, whole)}, trace{{0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0}}, 0)
}

// Each batch normalisation has its own statistics.
func TestTwoNormsAreShared(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	build := func(batch int) (g *G.ExprGraph, x, y *G.Node) {
		g = G.NewGraph()
		x = G.NewTensor(g, tensor.Float64, 4, G.WithShape(batch, 1, 1, 2), G.WithName("x"))
		one := G.NewConstant(tensor.Ones(tensor.Float64, batch, 1, 1, 2))
		y, _, _, _, err := G.BatchNorm(x, one, one, 1, 0)
		if err == nil {
			y, _, _, _, err = G.BatchNorm(G.Must(G.Exp(y)), one, one, 1, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		return g, x, y
	}
	batch := tensor.New(tensor.WithShape(2, 1, 1, 2), tensor.WithBacking([]float64{1, 2, 4, 8}))
	g, x, _ := build(2)
	trainer, err := devicevm.New(g, dev)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	let(t, trainer, x, batch)
	run(t, trainer)
	g, x, y := build(2)
	evaluator, err := devicevm.New(g, dev, devicevm.WithEval(), devicevm.WithWeightsFrom(trainer))
	if err != nil {
		t.Fatal(err)
	}
	defer evaluator.Close()
	let(t, evaluator, x, batch)
	run(t, evaluator)

	// By hand: with a momentum of 1 the running statistics are the batch's, the variance that of a sample.
	want := []float64{1, 2, 4, 8}
	normalise := func(v, by []float64) {
		mean, variance := 0.0, 0.0
		for _, x := range by {
			mean += x / 4
		}
		for _, x := range by {
			variance += (x - mean) * (x - mean)
		}
		for i, x := range v {
			v[i] = (x-mean)/math.Sqrt(variance/3) + 1
		}
	}
	trained := slices.Clone(want) // as in training, where the batch's own variance is divided by 4
	mean, squares := 3.75, 0.0
	for _, x := range trained {
		squares += (x - mean) * (x - mean)
	}
	for i, x := range trained {
		trained[i] = math.Exp((x-mean)/math.Sqrt(squares/4) + 1)
	}
	normalise(want, slices.Clone(want))
	for i, x := range want {
		want[i] = math.Exp(x)
	}
	normalise(want, trained)
	compare(t, trace{floats(t, y.Value())}, trace{want}, 1e-9)
}
