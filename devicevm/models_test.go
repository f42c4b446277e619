package devicevm_test

// This file has the networks that tests train.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// model builds a network: a cost from inputs.
type model struct {
	name  string
	x, y  tensor.Shape // of one sample
	build func(b *builder, x, y *G.Node) (cost *G.Node)
}

// network is a graph with its weights, gradients and data.
type network struct {
	model
	graph   *G.ExprGraph
	x, y    *G.Node
	weights G.Nodes
	cost    *read
	loss    *G.Node
}

// read is a value that a graph reads.
type read struct{ v G.Value }

func (r *read) floats(t testing.TB) []float64 {
	t.Helper()
	if r.v == nil {
		t.Fatal("Read has read nothing")
	}
	return floats(t, r.v)
}

// builder makes weights, the same each time.
type builder struct {
	t       testing.TB
	graph   *G.ExprGraph
	dt      tensor.Dtype
	rng     *rand.Rand
	weights G.Nodes
}

func newNetwork(t testing.TB, m model, dt tensor.Dtype, batch int) *network {
	t.Helper()
	n := &network{model: m, graph: G.NewGraph(), cost: new(read)}
	b := &builder{t: t, graph: n.graph, dt: dt, rng: rand.New(rand.NewPCG(1, 2))}
	n.x = b.input("x", batch, m.x)
	n.y = b.input("y", batch, m.y)
	cost := m.build(b, n.x, n.y)
	G.Read(cost, &n.cost.v)
	n.loss = cost
	if _, err := G.Grad(cost, b.weights...); err != nil {
		t.Fatal(err)
	}
	n.weights = b.weights
	return n
}

func (b *builder) input(name string, batch int, sample tensor.Shape) *G.Node {
	shape := append(tensor.Shape{batch}, sample...)
	return G.NewTensor(b.graph, b.dt, len(shape), G.WithShape(shape...), G.WithName(name))
}

// weight is normally distributed.
func (b *builder) weight(deviation float64, shape ...int) *G.Node {
	v := random(b.rng, b.dt, deviation, shape...)
	n := G.NewTensor(b.graph, b.dt, len(shape), G.WithShape(shape...), G.WithName(fmt.Sprint("w", len(b.weights))), G.WithValue(v))
	b.weights = append(b.weights, n)
	return n
}

func random(rng *rand.Rand, dt tensor.Dtype, deviation float64, shape ...int) *tensor.Dense {
	size := tensor.Shape(shape).TotalSize()
	if dt == tensor.Float32 {
		data := make([]float32, size)
		for i := range data {
			data[i] = float32(rng.NormFloat64() * deviation)
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
	}
	data := make([]float64, size)
	for i := range data {
		data[i] = rng.NormFloat64() * deviation
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

// must gives up on an error.
func (b *builder) must(n *G.Node, err error) *G.Node {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// feed gives step k's batch: images of noise, and as targets one class each, or what y's shape says.
func (n *network) feed(t testing.TB, k int, let func(*G.Node, G.Value) error) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(k), 3))
	x := random(rng, n.x.Dtype(), 1, n.x.Shape()...)
	y := random(rng, n.y.Dtype(), 1, n.y.Shape()...)
	if classes := n.model.y.TotalSize(); len(n.model.y) == 1 && classes > 1 {
		if err := y.Memset(zero(n.y.Dtype(), 0)); err != nil {
			t.Fatal(err)
		}
		for i := range n.y.Shape()[0] {
			if err := y.SetAt(zero(n.y.Dtype(), 1), i, rng.IntN(classes)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := let(n.x, x); err != nil {
		t.Fatal(err)
	}
	if err := let(n.y, y); err != nil {
		t.Fatal(err)
	}
}

// zero is a number of the dtype.
func zero(dt tensor.Dtype, x float64) any {
	if dt == tensor.Float32 {
		return float32(x)
	}
	return x
}

func (b *builder) dense(x *G.Node, outputs int, bias bool) *G.Node {
	in := x.Shape()[1]
	y := b.must(G.Mul(x, b.weight(math.Sqrt(2/float64(in)), in, outputs)))
	if bias {
		y = b.must(G.BroadcastAdd(y, b.weight(0.1, 1, outputs), nil, []byte{0}))
	}
	return y
}

func (b *builder) crossEntropy(logits, y *G.Node) *G.Node {
	picked := b.must(G.HadamardProd(b.must(G.LogSoftMax(logits)), y))
	return b.must(G.Neg(b.must(G.Mean(b.must(G.Sum(picked, 1))))))
}

func (b *builder) conv(x *G.Node, channels int) *G.Node {
	in := x.Shape()[1]
	w := b.weight(math.Sqrt(2/float64(9*in)), channels, in, 3, 3)
	return b.must(G.Conv2d(x, w, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
}

func (b *builder) flatten(x *G.Node) *G.Node {
	s := x.Shape()
	return b.must(G.Reshape(x, tensor.Shape{s[0], s.TotalSize() / s[0]}))
}

var models = []model{
	{"mlp", tensor.Shape{20}, tensor.Shape{5}, func(b *builder, x, y *G.Node) *G.Node {
		x = b.must(G.Rectify(b.dense(x, 16, false)))
		x = b.must(G.Rectify(b.dense(x, 12, false)))
		return b.crossEntropy(b.dense(x, 5, false), y)
	}},
	{"mlpbias", tensor.Shape{20}, tensor.Shape{5}, func(b *builder, x, y *G.Node) *G.Node {
		x = b.must(G.Tanh(b.dense(x, 16, true)))
		x = b.must(G.Rectify(b.dense(x, 12, true)))
		return b.crossEntropy(b.dense(x, 5, true), y)
	}},
	{"cnn", tensor.Shape{2, 8, 8}, tensor.Shape{4}, func(b *builder, x, y *G.Node) *G.Node {
		x = b.conv(x, 3)
		gamma, beta := b.weight(0.5, x.Shape()...), b.weight(0.5, x.Shape()...)
		x, _, _, _, err := G.BatchNorm(x, gamma, beta, 0.9, 1e-5)
		x = b.must(x, err)
		x = b.must(G.MaxPool2D(b.must(G.Rectify(x)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		x = b.must(G.Rectify(b.conv(x, 4)))
		x = b.must(G.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		return b.crossEntropy(b.dense(b.flatten(x), 4, true), y)
	}},
}
