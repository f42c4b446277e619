package devicevm_test

// This file compares the time of a training step with tapeMachine's.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/driver"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// mnist are the networks of examples/mnist.
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
	{"convnet", tensor.Shape{1, 28, 28}, tensor.Shape{10}, func(b *builder, x, y *G.Node) *G.Node {
		for _, channels := range []int{32, 64, 128} {
			bias := b.weight(0, 1, channels, 1, 1)
			x = b.must(G.Rectify(b.must(G.BroadcastAdd(b.conv(x, channels), bias, nil, []byte{0, 2, 3}))))
			x = b.must(G.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		}
		x = b.must(G.Rectify(b.dense(b.flatten(x), 625, true)))
		return b.crossEntropy(b.dense(x, 10, true), y)
	}},
}

// tiny has hardly anything to compute: what a step costs by itself.
var tiny = model{"tiny", tensor.Shape{4}, tensor.Shape{}, examples[0].build}

// BenchmarkStep is one step of training with plain gradient descent, in float32. With feed=let two host tensors are
// given to each step, with feed=batch a loader's batches, whose copies to the device are part of the time. With
// read=every each step's loss is waited for, with read=100 each hundredth's.
func BenchmarkStep(b *testing.B) {
	for _, m := range append(mnist, tiny) {
		for _, batch := range []int{64, 256} {
			if m.name == "tiny" && batch > 64 {
				continue
			}
			name := fmt.Sprintf("model=%s/batch=%d", m.name, batch)
			b.Run(name+"/vm=tape", func(b *testing.B) { benchmarkTape(b, newNetwork(b, m, tensor.Float32, batch)) })
			for _, feed := range []string{"let", "batch"} {
				for _, read := range []struct {
					name string
					n    int
				}{{"every", 1}, {"100", 100}} {
					b.Run(fmt.Sprintf("%s/vm=device/feed=%s/read=%s", name, feed, read.name), func(b *testing.B) {
						benchmarkDevice(b, openDevice(b), m, batch, feed, read.n)
					})
				}
			}
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

func benchmarkDevice(b *testing.B, dev *asynccopy.Device, m model, batch int, feed string, read int) {
	n := newNetwork(b, m, tensor.Float32, batch)
	vm, err := devicevm.New(n.graph, dev, devicevm.WithSolver(G.NewVanillaSolver(G.WithLearnRate(0.01))), devicevm.WithReadEvery(read))
	if err != nil {
		b.Fatal(err)
	}
	defer vm.Close()
	step := func(x, y G.Value) {
		if err := errors.Join(vm.Let(n.x, x), vm.Let(n.y, y), vm.RunAll()); err != nil {
			b.Fatal(err)
		}
	}
	if feed == "let" {
		values := map[*G.Node]G.Value{}
		n.feed(b, 0, func(node *G.Node, v G.Value) error { values[node] = v; return nil })
		b.ReportAllocs()
		for b.Loop() {
			step(values[n.x], values[n.y])
		}
		if err := vm.Sync(); err != nil { // the steps that are not done yet count, too
			b.Fatal(err)
		}
		reportLaunches(b, vm)
		return
	}
	next := batches(b, dev, n)
	if kinds[kind].name == "cuda" {
		for range 200 { // until each of the loader's buffers has been used, and the step captured with it
			step(next())
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		step(next())
	}
	if err := vm.Sync(); err != nil {
		b.Fatal(err)
	}
	reportLaunches(b, vm)
}

func reportLaunches(b *testing.B, vm *devicevm.VM) {
	if n := vm.Launches(); n > 0 {
		b.ReportMetric(float64(n), "launches")
	}
}

// BenchmarkNewInput is a step with tensors that no step had before: code for it is made, and captured on a GPU.
func BenchmarkNewInput(b *testing.B) {
	for _, m := range mnist {
		b.Run("model="+m.name, func(b *testing.B) {
			dev := openDevice(b)
			s, err := dev.NewStream()
			if err != nil {
				b.Fatal(err)
			}
			n := newNetwork(b, m, tensor.Float32, 64)
			vm, err := devicevm.New(n.graph, dev, devicevm.WithSolver(G.NewVanillaSolver()), devicevm.WithReadEvery(100))
			if err != nil {
				b.Fatal(err)
			}
			n.feed(b, 0, vm.Let)
			var xs []*asynccopy.Tensor
			for range 200 { // more than a VM keeps code for
				x, err := s.Empty(tensor.Float32, n.x.Shape()...)
				if err != nil {
					b.Fatal(err)
				}
				xs = append(xs, x)
			}
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				if err := errors.Join(vm.Let(n.x, xs[k%len(xs)]), vm.RunAll()); err != nil {
					b.Fatal(err)
				}
			}
			if err := vm.Close(); err != nil {
				b.Fatal(err)
			}
			for _, x := range xs {
				if err := x.Release(); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// batches returns a function that gives a loader's batches on the device, of as many samples as MNIST's.
func batches(b *testing.B, dev *asynccopy.Device, n *network) func() (x, y G.Value) {
	copies, err := dev.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { copies.Close() })
	const samples = 60000
	field := func(shape tensor.Shape) *tensor.Dense {
		data := make([]float32, samples*shape.TotalSize())
		for i := range data {
			data[i] = float32(i%251) / 251
		}
		return tensor.New(tensor.WithShape(append(tensor.Shape{samples}, shape...)...), tensor.WithBacking(data))
	}
	set, err := dataloader.FromTensors(field(n.model.x), field(n.model.y))
	if err != nil {
		b.Fatal(err)
	}
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: n.x.Shape()[0], Shuffle: true, Stream: copies, LastBatch: dataloader.DropLast})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { loader.Close() })
	next, stop := iter.Pull2(func(yield func(*dataloader.Batch, error) bool) {
		for { // epochs
			for batch, err := range loader.Batches(context.Background()) {
				if !yield(batch, err) {
					return
				}
			}
		}
	})
	b.Cleanup(stop)
	return func() (x, y G.Value) {
		batch, err, _ := next()
		if err != nil {
			b.Fatal(err)
		}
		return batch.Device(0), batch.Device(1)
	}
}

// BenchmarkGraph is a step as a captured graph in which everything waits for what was captured before, and as one with
// branches, on a GPU.
func BenchmarkGraph(b *testing.B) {
	if kinds[kind].name != "cuda" {
		b.Skip("there is no GPU")
	}
	for _, m := range mnist {
		for _, batch := range []int{64, 256} {
			for _, order := range []string{"chain", "branches"} {
				b.Run(fmt.Sprintf("model=%s/batch=%d/order=%s", m.name, batch, order), func(b *testing.B) {
					drv := kinds[kind].driver(b)
					if order == "chain" {
						drv = chained{drv}
					}
					benchmarkDevice(b, open(b, drv), m, batch, "batch", 100)
				})
			}
		}
	}
}

// chained has devices whose captures are chains.
type chained struct{ driver.Driver }

func (c chained) Open(ordinal int) (driver.Device, error) {
	d, err := c.Driver.Open(ordinal)
	return chainedDevice{d}, err
}

type chainedDevice struct{ driver.Device }

func (chainedDevice) SetCaptureDependencies(driver.Stream, []driver.Node) error {
	return driver.ErrNotSupported
}

// BenchmarkStart is all that comes before training: a device, a VM, and its first step. It includes the compilation of
// the kernels by the driver, which keeps them, so that other programs and later runs are quicker.
func BenchmarkStart(b *testing.B) {
	for _, m := range mnist {
		b.Run("model="+m.name, func(b *testing.B) {
			n := newNetwork(b, m, tensor.Float32, 64)
			for b.Loop() {
				dev, err := asynccopy.OpenDriver(kinds[kind].driver(b), 0)
				if err != nil {
					b.Fatal(err)
				}
				vm, err := devicevm.New(n.graph, dev, devicevm.WithSolver(G.NewVanillaSolver()))
				if err != nil {
					b.Fatal(err)
				}
				n.feed(b, 0, vm.Let)
				if err := errors.Join(vm.RunAll(), vm.Close(), dev.Close()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
