// A network that Gorgonia describes, and package devicevm trains and evaluates on a device.
//
// There are two graphs over one set of weights, so that evaluating does not compute gradients. A graph has
// fixed shapes, the size of a batch among them. The weights live on the device, where the solver changes them
// as part of each training step; the evaluating graph uses them there.

package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// network is a classifier. It is for one goroutine at a time.
type network[T float] struct {
	weights []*tensor.Dense // as they were at first; close brings what was learnt

	// Training: from a batch of images and labels to new weights.
	trainer *devicevm.VM
	nodes   G.Nodes // the weights
	x, y    *G.Node
	cost    *G.Node

	// Prediction: from a batch of images to a score for each class.
	predictor   *devicevm.VM
	px          *G.Node
	scoresValue G.Value
}

// newNetwork makes a network on dev with weights drawn from seed, for batches of the given size.
func newNetwork[T float](m model[T], dev *asynccopy.Device, batch int, solver G.Solver, seed uint64) (*network[T], error) {
	n := new(network[T])
	random := rand.New(rand.NewPCG(seed, 0))
	if err := n.buildTrainer(m, dev, batch, solver, random); err != nil {
		return nil, fmt.Errorf("graph for training: %w", err)
	}
	if err := n.buildPredictor(m, dev, batch); err != nil {
		return nil, errors.Join(fmt.Errorf("graph for prediction: %w", err), n.close())
	}
	return n, nil
}

func (n *network[T]) buildTrainer(m model[T], dev *asynccopy.Device, batch int, solver G.Solver, random *rand.Rand) error {
	b := &builder[T]{graph: G.NewGraph(), random: random}
	n.x = input[T](b.graph, "x", batch, m.input)
	n.y = input[T](b.graph, "y", batch, tensor.Shape{classes})
	logits := m.forward(b, n.x)
	if b.err != nil {
		return b.err
	}
	var err error
	if n.cost, err = crossEntropy(logits, n.y); err != nil {
		return err
	}
	if _, err := G.Grad(n.cost, b.nodes...); err != nil {
		return err
	}
	n.weights, n.nodes = b.values, b.nodes
	// Nothing is read in each step, so that the next ones are prepared while a GPU still computes: see loss.
	n.trainer, err = devicevm.New(b.graph, dev, devicevm.WithSolver(solver), devicevm.WithReadEvery(math.MaxInt))
	return err
}

func (n *network[T]) buildPredictor(m model[T], dev *asynccopy.Device, batch int) error {
	b := &builder[T]{graph: G.NewGraph(), values: n.weights}
	n.px = input[T](b.graph, "x", batch, m.input)
	logits := m.forward(b, n.px)
	if b.err != nil {
		return b.err
	}
	G.Read(logits, &n.scoresValue)
	var err error
	n.predictor, err = devicevm.New(b.graph, dev, devicevm.WithEval(), devicevm.WithWeightsFrom(n.trainer))
	return err
}

// input is a node for a batch of samples of the given shape.
func input[T float](g *G.ExprGraph, name string, batch int, sample tensor.Shape) *G.Node {
	shape := append(tensor.Shape{batch}, sample...)
	return G.NewTensor(g, dtypeOf[T](), len(shape), G.WithShape(shape...), G.WithName(name))
}

// crossEntropy is the mean over the batch of -log(probability of the right class). y is 1 at the right
// class and 0 elsewhere.
func crossEntropy(logits, y *G.Node) (*G.Node, error) {
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
}

// train takes one step of the solver. x and y are tensors of the host, which are copied, or of the device, which are
// used where they are. Neither is needed afterwards.
func (n *network[T]) train(x, y G.Value) error {
	if err := errors.Join(n.trainer.Let(n.x, x), n.trainer.Let(n.y, y)); err != nil {
		return err
	}
	return n.trainer.RunAll()
}

// loss returns the loss of the latest step, before it changed the weights. It waits for the step.
func (n *network[T]) loss() (float64, error) {
	v, err := n.trainer.Value(n.cost)
	if err != nil {
		return 0, err
	}
	return float64(v.Data().(T)), nil
}

// predict returns the class of each image of x, a tensor as those of train.
func (n *network[T]) predict(x G.Value) ([]int, error) {
	if err := n.predictor.Let(n.px, x); err != nil {
		return nil, err
	}
	if err := n.predictor.RunAll(); err != nil {
		return nil, err
	}
	scores := n.scoresValue.Data().([]T)
	predicted := make([]int, 0, len(scores)/classes)
	for ; len(scores) > 0; scores = scores[classes:] {
		predicted = append(predicted, argmax(scores[:classes]))
	}
	return predicted, nil
}

func argmax[T float](values []T) int {
	best := 0
	for i, v := range values {
		if v > values[best] {
			best = i
		}
	}
	return best
}

// parameters is how many numbers the network has learnt.
func (n *network[T]) parameters() int {
	total := 0
	for _, w := range n.weights {
		total += w.DataSize()
	}
	return total
}

// close ends the machines. The network cannot be used afterwards; weights has what it learnt.
func (n *network[T]) close() error {
	err := n.trainer.Close()
	if n.predictor != nil {
		err = errors.Join(err, n.predictor.Close())
	}
	return err
}
