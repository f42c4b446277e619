// A network that Gorgonia trains and evaluates on the CPU.
//
// There are two graphs over one set of weights, so that evaluating does not compute gradients. A graph has
// fixed shapes, the size of a batch among them.
//
// What tapeMachine needs from its user:
//   - It may overwrite its inputs. They must be batches that are filled anew each time, never
//     a view of the data set.
//   - It keeps the inputs until the next Let, but reads them only during RunAll. So a batch can be
//     recycled as soon as RunAll has returned.
//   - RunAll without Reset runs nothing the second time.
//   - Gradients add up until a solver has used them.

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// network is a classifier. It is for one goroutine at a time.
type network[T float] struct {
	weights []*tensor.Dense // shared by the two graphs, changed by train

	// Training: from a batch of images and labels to new weights.
	trainer   G.VM
	x, y      *G.Node
	lossValue G.Value
	gradients []G.ValueGrad
	solver    G.Solver

	// Prediction: from a batch of images to a score for each class.
	predictor   G.VM
	px          *G.Node
	scoresValue G.Value
}

// newNetwork makes a network with weights drawn from seed, for batches of the given size.
func newNetwork[T float](m model[T], batch int, learningRate float64, seed uint64) (*network[T], error) {
	n := &network[T]{solver: G.NewVanillaSolver(G.WithLearnRate(learningRate))}
	random := rand.New(rand.NewPCG(seed, 0))
	if err := n.buildTrainer(m, batch, random); err != nil {
		return nil, fmt.Errorf("graph for training: %w", err)
	}
	if err := n.buildPredictor(m, batch); err != nil {
		return nil, errors.Join(fmt.Errorf("graph for prediction: %w", err), n.close())
	}
	return n, nil
}

func (n *network[T]) buildTrainer(m model[T], batch int, random *rand.Rand) error {
	b := &builder[T]{graph: G.NewGraph(), random: random}
	n.x = input[T](b.graph, "x", batch, m.input)
	n.y = input[T](b.graph, "y", batch, tensor.Shape{classes})
	logits := m.forward(b, n.x)
	if b.err != nil {
		return b.err
	}
	loss, err := crossEntropy(logits, n.y)
	if err != nil {
		return err
	}
	G.Read(loss, &n.lossValue)
	if _, err := G.Grad(loss, b.nodes...); err != nil {
		return err
	}
	n.weights = b.values
	n.trainer = G.NewTapeMachine(b.graph, G.BindDualValues(b.nodes...))
	n.gradients = G.NodesToValueGrads(b.nodes)
	return nil
}

func (n *network[T]) buildPredictor(m model[T], batch int) error {
	b := &builder[T]{graph: G.NewGraph(), values: n.weights}
	n.px = input[T](b.graph, "x", batch, m.input)
	logits := m.forward(b, n.px)
	if b.err != nil {
		return b.err
	}
	G.Read(logits, &n.scoresValue)
	n.predictor = G.NewTapeMachine(b.graph)
	return nil
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

// train takes one step of gradient descent and returns the loss before it. It may overwrite x and y, and
// does not need them afterwards.
func (n *network[T]) train(x, y *tensor.Dense) (loss float64, err error) {
	if err := errors.Join(G.Let(n.x, x), G.Let(n.y, y)); err != nil {
		return 0, err
	}
	defer n.trainer.Reset()
	if err := n.trainer.RunAll(); err != nil {
		return 0, err
	}
	if err := n.solver.Step(n.gradients); err != nil {
		return 0, err
	}
	return float64(n.lossValue.Data().(T)), nil
}

// predict returns the class of each image of x, which it may overwrite.
func (n *network[T]) predict(x *tensor.Dense) ([]int, error) {
	if err := G.Let(n.px, x); err != nil {
		return nil, err
	}
	defer n.predictor.Reset()
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

// close ends the machines. The network cannot be used afterwards.
func (n *network[T]) close() error {
	err := n.trainer.Close()
	if n.predictor != nil {
		err = errors.Join(err, n.predictor.Close())
	}
	return err
}
