package devicevm_test

// This file compares the time of a training step with tapeMachine's.

import (
	"fmt"
	"testing"

	"github.com/pintensor/pin/devicevm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// mnist are the networks of examples/mnist, and the larger CNN of the targets.
var mnist = []model{
	{"mlp", tensor.Shape{784}, tensor.Shape{10}, func(b *builder, x, y *G.Node) *G.Node {
		x = b.must(G.Rectify(b.dense(x, 300, true)))
		x = b.must(G.Rectify(b.dense(x, 100, true)))
		return b.crossEntropy(b.dense(x, 10, true), y)
	}},
	{"cnn", tensor.Shape{1, 28, 28}, tensor.Shape{10}, func(b *builder, x, y *G.Node) *G.Node {
		for _, channels := range []int{8, 16} {
			x = b.must(G.Rectify(b.conv(x, channels)))
			x = b.must(G.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		}
		return b.crossEntropy(b.dense(b.flatten(x), 10, true), y)
	}},
}

// tiny has hardly anything to compute: what a step costs by itself.
var tiny = model{"tiny", tensor.Shape{4}, tensor.Shape{}, examples[0].build}

// BenchmarkStep is one step of training with plain gradient descent, in float32.
func BenchmarkStep(b *testing.B) {
	for _, m := range append(mnist, tiny) {
		for _, batch := range []int{64, 256} {
			if m.name != "mlp" && batch > 64 {
				continue
			}
			name := fmt.Sprintf("model=%s/batch=%d", m.name, batch)
			b.Run(name+"/vm=tape", func(b *testing.B) { benchmarkTape(b, newNetwork(b, m, tensor.Float32, batch)) })
			b.Run(name+"/vm=device", func(b *testing.B) { benchmarkDevice(b, newNetwork(b, m, tensor.Float32, batch)) })
		}
	}
}

func benchmarkTape(b *testing.B, n *network) {
	vm := G.NewTapeMachine(n.graph, G.BindDualValues(n.weights...))
	defer vm.Close()
	solver := G.NewVanillaSolver(G.WithLearnRate(0.01))
	grads := G.NodesToValueGrads(n.weights)
	n.feed(b, 0, func(node *G.Node, v G.Value) error { return G.Let(node, v) })
	b.ReportAllocs()
	for b.Loop() {
		if err := vm.RunAll(); err != nil {
			b.Fatal(err)
		}
		if err := solver.Step(grads); err != nil {
			b.Fatal(err)
		}
		vm.Reset()
	}
}

func benchmarkDevice(b *testing.B, n *network) {
	vm, err := devicevm.New(n.graph, openDevice(b), devicevm.WithSolver(G.NewVanillaSolver(G.WithLearnRate(0.01))))
	if err != nil {
		b.Fatal(err)
	}
	defer vm.Close()
	x, y := map[*G.Node]G.Value{}, []*G.Node{n.x, n.y}
	n.feed(b, 0, func(node *G.Node, v G.Value) error { x[node] = v; return nil })
	b.ReportAllocs()
	for b.Loop() {
		for _, node := range y {
			if err := vm.Let(node, x[node]); err != nil {
				b.Fatal(err)
			}
		}
		if err := vm.RunAll(); err != nil {
			b.Fatal(err)
		}
	}
}
