package gpu

// This file counts what a training step launches.

import (
	"testing"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// layers makes networks.
type layers struct {
	t       *testing.T
	g       *G.ExprGraph
	weights G.Nodes
}

func (l *layers) must(n *G.Node, err error) *G.Node {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

func (l *layers) input(name string, shape ...int) *G.Node {
	return G.NewTensor(l.g, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name))
}

func (l *layers) weight(shape ...int) *G.Node {
	w := l.input(string(rune('a'+len(l.weights))), shape...)
	l.weights = append(l.weights, w)
	return w
}

func (l *layers) dense(x *G.Node, n int) *G.Node {
	y := l.must(G.Mul(x, l.weight(x.Shape()[1], n)))
	return l.must(G.BroadcastAdd(y, l.weight(1, n), nil, []byte{0}))
}

func (l *layers) conv(x *G.Node, channels int) *G.Node {
	y := l.must(G.Conv2d(x, l.weight(channels, x.Shape()[1], 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
	y = l.must(G.BroadcastAdd(y, l.weight(1, channels, 1, 1), nil, []byte{0, 2, 3}))
	return l.must(G.MaxPool2D(l.must(G.Rectify(y)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
}

// plan is a step of training by cross entropy, without the solver's. With nil it is of the graph as it is.
func (l *layers) plan(logits *G.Node, opts plan.Options) (*graph.Graph, *plan.Program) {
	l.t.Helper()
	if logits != nil {
		y := l.input("y", logits.Shape()...)
		picked := l.must(G.HadamardProd(l.must(G.LogSoftMax(logits)), y))
		cost := l.must(G.Neg(l.must(G.Mean(l.must(G.Sum(picked, 1))))))
		if _, err := G.Grad(cost, l.weights...); err != nil {
			l.t.Fatal(err)
		}
	}
	g, err := graph.Read(l.g)
	if err != nil {
		l.t.Fatal(err)
	}
	opts.Roots = plan.Roots(g)
	p, err := plan.Build(g, opts)
	if err != nil {
		l.t.Fatal(err)
	}
	return g, p
}

// count returns how many pieces of work the step is.
func (l *layers) count(logits *G.Node) int {
	l.t.Helper()
	_, p := l.plan(logits, plan.Options{})
	mem := Memory{Arena: 1 << 30, Inputs: make([]driver.DevicePtr, len(p.Inputs)), Consts: make([]driver.DevicePtr, len(p.Consts))}
	for _, list := range [][]driver.DevicePtr{mem.Inputs, mem.Consts} {
		for i := range list {
			list[i] = driver.DevicePtr((i + 1) << 40)
		}
	}
	c, err := compile(p, mem, true, false, false)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, ok := c.names["rows_f32"]; !ok {
		l.t.Error("the softmax and its gradient are no expression of rows")
	}
	if len(c.segments) != 1 {
		l.t.Errorf("%d segments", len(c.segments))
	}
	return len(c.segments[0].work)
}

// More launches than this are a step that was fused and is no more. A product by cuBLAS is one, though it may be two kernels.
func TestLaunchesOfAStep(t *testing.T) {
	leak.Check(t)
	for _, batch := range []int{64, 256, 1000} {
		l := &layers{t: t, g: G.NewGraph()}
		x := l.must(G.Rectify(l.dense(l.input("x", batch, 784), 300)))
		x = l.must(G.Rectify(l.dense(x, 100)))
		// Products: 3 forward, 3 of weights, 2 of activations; 5 of those go through something. Sums of biases, softmax
		// with its gradient, the loss.
		want := 8 + 5 + 3 + 1 + 1
		if batch > 256 {
			want += 3 // the loss is too large for one block
		}
		if n := l.count(l.dense(x, 10)); n > want {
			t.Errorf("a perceptron's step for a batch of %d is %d launches, want at most %d", batch, n, want)
		}
	}
	l := &layers{t: t, g: G.NewGraph()}
	x := l.conv(l.conv(l.input("x", 64, 1, 28, 28), 8), 16)
	x = l.must(G.Reshape(x, tensor.Shape{64, 16 * 7 * 7}))
	// Forward: two convolutions of im2col, product, bias with rectifier, pooling; dense layer, bias, softmax with its gradient.
	// Backward: two poolings with masks, two sums of biases of two passes, two products of weights, one of images with
	// col2im; two products and a sum of the dense layer; the loss.
	if n, want := l.count(l.dense(x, 10)), 8+3+2+4+2+2+3+1; n > want {
		t.Errorf("a convolutional network's step is %d launches, want at most %d", n, want)
	}
}
