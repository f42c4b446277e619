package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/pintensor/pin/dataloader"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// batchOf returns the first n bars as a batch of ordinary tensors.
func batchOf[T float](t testing.TB, m model[T], n int) (x, y *tensor.Dense) {
	t.Helper()
	d := newDataset[T](bars(n, 5), m.input)
	rows, err := dataloader.MakeRows(d.Fields(), n)
	if err != nil {
		t.Fatal(err)
	}
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	if err := d.ReadBatch(context.Background(), indices, rows); err != nil {
		t.Fatal(err)
	}
	x = tensor.New(tensor.WithShape(append([]int{n}, m.input...)...), tensor.WithBacking(slices.Clone(dataloader.RowsValues[T](rows, fieldImage))))
	y = tensor.New(tensor.WithShape(n, classes), tensor.WithBacking(slices.Clone(dataloader.RowsValues[T](rows, fieldLabel))))
	return x, y
}

// step trains and returns the loss.
func step[T float](net *network[T], x, y G.Value) (float64, error) {
	if err := net.train(x, y); err != nil {
		return 0, err
	}
	return net.loss()
}

// open returns a network that is closed at the end of the test.
func open[T float](t testing.TB, m model[T], batch int, learningRate float64, seed uint64) *network[T] {
	t.Helper()
	n, dev, err := openNetwork(m, config{device: "cpu", solver: "sgd", batch: batch, learningRate: learningRate, seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(n.close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// The step that training takes must be the learning rate times the slope of the loss, measured at both
// sides of a weight. That a batch of one keeps its axis is part of it.
func TestTrainFollowsTheSlope(t *testing.T) {
	check(t)
	const rate, h = 1e-3, 1e-5
	for _, name := range []string{"mlp", "cnn"} {
		for _, batch := range []int{1, 3} {
			m := modelNamed[float64](name)
			net := open(t, m, batch, rate, 1)
			x, y := batchOf(t, m, batch)
			start := weightsOf(t, net)

			// lossAt sets one weight, and all others to where they were at the start.
			lossAt := func(w, i int, value float64) float64 {
				start[w][i], value = value, start[w][i]
				restore(t, net, start)
				start[w][i] = value
				loss, err := step(net, x.Clone().(*tensor.Dense), y.Clone().(*tensor.Dense))
				if err != nil {
					t.Fatal(err)
				}
				return loss
			}
			lossAt(0, 0, start[0][0])
			stepped := weightsOf(t, net)
			for w := range start {
				for _, i := range []int{0, len(start[w]) / 2, len(start[w]) - 1} {
					at := start[w][i]
					slope := (lossAt(w, i, at+h) - lossAt(w, i, at-h)) / (2 * h)
					if got := (at - stepped[w][i]) / rate; math.Abs(got-slope) > 1e-4*max(1, math.Abs(slope)) {
						t.Errorf("%s, batch %d: weight %d of w%d went down by %g times the rate, the slope is %g", name, batch, i, w, got, slope)
					}
				}
			}
		}
	}
}

func weightsOf[T float](t *testing.T, n *network[T]) [][]T {
	t.Helper()
	if err := n.trainer.Sync(); err != nil {
		t.Fatal(err)
	}
	var all [][]T
	for _, w := range n.weights {
		all = append(all, slices.Clone(w.Data().([]T)))
	}
	return all
}

func restore[T float](t *testing.T, n *network[T], weights [][]T) {
	t.Helper()
	for k, node := range n.nodes {
		if err := n.trainer.Let(node, tensor.New(tensor.WithShape(node.Shape()...), tensor.WithBacking(weights[k]))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrainingLearns(t *testing.T) {
	check(t)
	t.Run("mlp/float32", func(t *testing.T) { testLearns[float32](t, "mlp") })
	t.Run("mlp/float64", func(t *testing.T) { testLearns[float64](t, "mlp") })
	t.Run("cnn/float32", func(t *testing.T) { testLearns[float32](t, "cnn") })
}

func testLearns[T float](t *testing.T, name string) {
	const batch = 16
	m := modelNamed[T](name)
	losses := func(seed uint64) (losses []float64, right int) {
		net := open(t, m, batch, 0.05, seed)
		for range 10 {
			x, y := batchOf(t, m, batch)
			loss, err := step(net, x, y)
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, loss)
		}
		x, y := batchOf(t, m, batch)
		predicted, err := net.predict(x)
		if err != nil {
			t.Fatal(err)
		}
		for i, class := range predicted {
			if y.Data().([]T)[i*classes+class] == 1 {
				right++
			}
		}
		return losses, right
	}
	first, right := losses(1)
	if last := first[len(first)-1]; !(last < first[0]/2) {
		t.Errorf("losses %v, want them to fall by half", first)
	}
	// The weights are shared by both graphs, so what training learnt is what prediction knows.
	if right < batch*8/10 {
		t.Errorf("%d of %d training images predicted right", right, batch)
	}
	if again, _ := losses(1); !slices.Equal(again, first) {
		t.Errorf("losses with the same seed differ: %v, %v", first, again)
	}
	if other, _ := losses(2); other[0] == first[0] {
		t.Errorf("another seed gives the same loss %v", other[0])
	}
}

// The loss that training reports is the textbook's, of the scores that prediction gives.
func TestLossIsCrossEntropy(t *testing.T) {
	check(t)
	for _, name := range []string{"mlp", "cnn"} {
		for _, batch := range []int{1, 3} {
			m := modelNamed[float64](name)
			net := open(t, m, batch, 0.1, 1)
			x, y := batchOf(t, m, batch)
			if _, err := net.predict(x.Clone().(*tensor.Dense)); err != nil {
				t.Fatal(err)
			}
			scores, labels := net.scoresValue.Data().([]float64), y.Clone().(*tensor.Dense).Data().([]float64)
			var want float64
			for i := range batch {
				var sum, right float64
				for k := i * classes; k < (i+1)*classes; k++ {
					sum += math.Exp(scores[k])
					right += labels[k] * math.Exp(scores[k])
				}
				want -= math.Log(right/sum) / float64(batch)
			}
			if got, err := step(net, x, y); err != nil || math.Abs(got-want) > 1e-9 {
				t.Errorf("%s, batch %d: loss %v, %v, want %v", name, batch, got, err, want)
			}
		}
	}
}

func TestTrainRefusesOtherShapes(t *testing.T) {
	check(t)
	m := modelNamed[float32]("mlp")
	net := open(t, m, 4, 0.1, 1)
	x, y := batchOf(t, m, 3)
	if err := net.train(x, y); err == nil {
		t.Error("a batch of 3 was accepted by a network for batches of 4")
	}
	if _, err := net.predict(x); err == nil {
		t.Error("a batch of 3 was predicted by a network for batches of 4")
	}
}

func TestParameters(t *testing.T) {
	check(t)
	want := 784*300 + 300 + 300*100 + 100 + 100*10 + 10
	if got := open(t, modelNamed[float32]("mlp"), 1, 0.1, 1).parameters(); got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
}
