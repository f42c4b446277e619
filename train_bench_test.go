package pin_test

// This file measures training with everything that belongs to it, on networks that bench_test.go's data
// goes into. docs/benchmarks/torch_baseline.py trains the same networks.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/devicevm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// labelled is digits as a network takes them: images in its shape, and labels that are 1 at the digit.
type labelled struct {
	*digits
	shape tensor.Shape
}

func (l labelled) Fields() []dataloader.Field {
	return []dataloader.Field{
		{Name: "image", Dtype: tensor.Float32, Shape: l.shape},
		{Name: "label", Dtype: tensor.Float32, Shape: tensor.Shape{10}},
	}
}

func (l labelled) Read(_ context.Context, i int, row dataloader.Row) error {
	l.normalise(dataloader.Values[float32](row, 0), l.image(i))
	dataloader.Values[float32](row, 1)[l.labels[i]] = 1
	return nil
}

// layers builds a network. The first error stays in err, and ends the building.
type layers struct {
	graph   *G.ExprGraph
	weights G.Nodes
	random  *rand.Rand
	err     error
}

func (l *layers) apply(op func() (*G.Node, error)) (x *G.Node) {
	if l.err == nil {
		x, l.err = op()
	}
	return x
}

func (l *layers) weight(inputs int, shape ...int) *G.Node {
	data := make([]float32, tensor.Shape(shape).TotalSize())
	for i := range data {
		data[i] = float32(l.random.NormFloat64() * math.Sqrt(2/float64(inputs)))
	}
	w := G.NewTensor(l.graph, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(fmt.Sprint("w", len(l.weights))),
		G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))))
	l.weights = append(l.weights, w)
	return w
}

func (l *layers) dense(x *G.Node, outputs int) *G.Node {
	return l.apply(func() (*G.Node, error) {
		w, bias := l.weight(x.Shape()[1], x.Shape()[1], outputs), l.weight(outputs, 1, outputs)
		xw, err := G.Mul(x, w)
		if err != nil {
			return nil, err
		}
		return G.BroadcastAdd(xw, bias, nil, []byte{0})
	})
}

func (l *layers) rectify(x *G.Node) *G.Node {
	return l.apply(func() (*G.Node, error) { return G.Rectify(x) })
}

// convolve is a convolution of 3 x 3, a rectifier, and a pool of 2 x 2.
func (l *layers) convolve(x *G.Node, channels int) *G.Node {
	x = l.rectify(l.apply(func() (*G.Node, error) {
		inputs := x.Shape()[1]
		return G.Conv2d(x, l.weight(9*inputs, channels, inputs, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1})
	}))
	return l.apply(func() (*G.Node, error) { return G.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}) })
}

func (l *layers) flatten(x *G.Node) *G.Node {
	return l.apply(func() (*G.Node, error) {
		n := x.Shape()[0]
		return G.Reshape(x, tensor.Shape{n, x.Shape().TotalSize() / n})
	})
}

var networks = []struct {
	name    string
	image   tensor.Shape
	forward func(l *layers, x *G.Node) *G.Node
}{
	{"mlp", tensor.Shape{784}, func(l *layers, x *G.Node) *G.Node { // 784-300-100-10
		return l.dense(l.rectify(l.dense(l.rectify(l.dense(x, 300)), 100)), 10)
	}},
	{"cnn", tensor.Shape{1, 28, 28}, func(l *layers, x *G.Node) *G.Node { // 32-64-128-625-10
		x = l.convolve(l.convolve(l.convolve(x, 32), 64), 128)
		return l.dense(l.rectify(l.dense(l.flatten(x), 625)), 10)
	}},
}

// BenchmarkTrain is a step of training: the loader reads and normalises a batch and copies it to the device, and the
// VM runs the network forward and backward and a step of plain gradient descent. The loss is read every 100 steps.
func BenchmarkTrain(b *testing.B) {
	data, dev := newDigits(), device(b)
	for _, net := range networks {
		for _, batch := range []int{64, 256} {
			if net.name == "cnn" && batch > 64 && !dev.IsCUDA() {
				continue // a second a step, on two cores
			}
			b.Run(fmt.Sprintf("model=%s/batch=%d", net.name, batch), func(b *testing.B) {
				benchmarkTrain(b, dev, labelled{data, net.image}, batch, net.forward)
			})
		}
	}
}

func benchmarkTrain(b *testing.B, dev *asynccopy.Device, data labelled, batch int, forward func(l *layers, x *G.Node) *G.Node) {
	l := &layers{graph: G.NewGraph(), random: rand.New(rand.NewPCG(1, 2))}
	input := func(name string, sample tensor.Shape) *G.Node {
		shape := append(tensor.Shape{batch}, sample...)
		return G.NewTensor(l.graph, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name))
	}
	x, y := input("x", data.shape), input("y", tensor.Shape{10})
	logits := forward(l, x)
	loss := l.apply(func() (*G.Node, error) {
		logp, err := G.LogSoftMax(logits)
		if err != nil {
			return nil, err
		}
		picked, err := G.HadamardProd(logp, y)
		if err != nil {
			return nil, err
		}
		samples, err := G.Sum(picked, 1)
		if err != nil {
			return nil, err
		}
		mean, err := G.Mean(samples)
		if err != nil {
			return nil, err
		}
		return G.Neg(mean)
	})
	if l.err != nil {
		b.Fatal(l.err)
	}
	var read G.Value
	G.Read(loss, &read)
	if _, err := G.Grad(loss, l.weights...); err != nil {
		b.Fatal(err)
	}

	vm, err := devicevm.New(l.graph, dev, devicevm.WithSolver(G.NewVanillaSolver(G.WithLearnRate(0.05))), devicevm.WithReadEvery(100))
	if err != nil {
		b.Fatal(err)
	}
	defer vm.Close()
	loader, err := dataloader.New(data, dataloader.Config{BatchSize: batch, Shuffle: true, LastBatch: dataloader.DropLast, Stream: stream(b, dev)})
	if err != nil {
		b.Fatal(err)
	}
	defer loader.Close()

	const warmUp = 5
	b.ReportAllocs()
	steps, running := 0, true
	for running {
		for batch, err := range loader.Batches(context.Background()) {
			if err == nil {
				err = errors.Join(vm.Let(x, batch.Device(0)), vm.Let(y, batch.Device(1)), vm.RunAll())
			}
			if err != nil {
				b.Fatal(err)
			}
			// What the first steps do once, such as to capture the graph, is not timed, nor what the
			// loader has read ahead before there was anything to read it for.
			if steps++; steps == warmUp {
				if err := dev.Synchronize(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
			}
			if steps >= warmUp {
				if running = b.Loop(); !running {
					break
				}
			}
		}
	}
	if err := dev.Synchronize(context.Background()); err != nil {
		b.Fatal(err)
	}
	last, err := vm.Value(loss)
	if err != nil || math.IsNaN(float64(last.Data().(float32))) {
		b.Fatalf("the loss is %v, error %v", last, err)
	}
	b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
