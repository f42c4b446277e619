// The networks, and the layers that they are made of.

package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// model is an architecture.
type model[T float] struct {
	text    string       // for people
	input   tensor.Shape // of one image
	forward func(b *builder[T], x *G.Node) (logits *G.Node)
}

// modelNamed returns the model that the flag -model names.
func modelNamed[T float](name string) model[T] {
	switch name {
	case "cnn":
		return model[T]{"cnn, two convolutions of 8 and 16 channels", tensor.Shape{1, height, width}, cnn[T]}
	case "convnet":
		return model[T]{"convnet, three convolutions of 32, 64 and 128 channels", tensor.Shape{1, height, width}, convnet[T]}
	}
	return model[T]{"mlp 784-300-100-10", tensor.Shape{pixels}, mlp[T]}
}

func mlp[T float](b *builder[T], x *G.Node) *G.Node {
	x = b.rectify(b.dense(x, 300))
	x = b.rectify(b.dense(x, 100))
	return b.dense(x, classes)
}

func cnn[T float](b *builder[T], x *G.Node) *G.Node {
	x = b.pool(b.rectify(b.convolve(x, 8)))  // 28 x 28 -> 14 x 14
	x = b.pool(b.rectify(b.convolve(x, 16))) // -> 7 x 7
	return b.dense(b.flatten(x), classes)
}

// convnet is the network of Gorgonia's example of this name, without its dropout.
func convnet[T float](b *builder[T], x *G.Node) *G.Node {
	for _, channels := range []int{32, 64, 128} { // 28 x 28 -> 14 x 14 -> 7 x 7 -> 3 x 3
		x = b.pool(b.rectify(b.bias(b.convolve(x, channels))))
	}
	x = b.rectify(b.dense(b.flatten(x), 625))
	return b.dense(x, classes)
}

// builder adds layers to a graph. It remembers the first error; layers after it do nothing, so that a
// network reads as what it is.
//
// It makes the weights too, from a seed, because those that Gorgonia makes differ from run to run. A
// builder that is given weights uses them, in their order: two graphs can share one set.
type builder[T float] struct {
	graph  *G.ExprGraph
	random *rand.Rand
	values []*tensor.Dense // the weights
	nodes  G.Nodes         // the same in this graph
	err    error
}

// weight returns the next weight of the network, normally distributed around 0.
func (b *builder[T]) weight(deviation float64, shape ...int) *G.Node {
	k := len(b.nodes)
	if k == len(b.values) {
		data := make([]T, tensor.Shape(shape).TotalSize())
		for i := range data {
			data[i] = T(b.random.NormFloat64() * deviation)
		}
		b.values = append(b.values, tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data)))
	}
	node := G.NewTensor(b.graph, dtypeOf[T](), len(shape), G.WithShape(shape...),
		G.WithName(fmt.Sprintf("w%d", k)), G.WithValue(b.values[k]))
	b.nodes = append(b.nodes, node)
	return node
}

// dense is x*w + bias: every output sees every input.
func (b *builder[T]) dense(x *G.Node, outputs int) *G.Node {
	if b.err != nil {
		return nil
	}
	inputs := x.Shape()[1]
	w := b.weight(math.Sqrt(2/float64(inputs)), inputs, outputs) // He et al. 2015, for rectified layers
	bias := b.weight(0, 1, outputs)
	return b.apply(func() (*G.Node, error) {
		xw, err := G.Mul(x, w)
		if err != nil {
			return nil, err
		}
		return G.BroadcastAdd(xw, bias, nil, []byte{0})
	})
}

// convolve is a convolution of 3 x 3 that keeps the size of the images. It has no bias.
func (b *builder[T]) convolve(x *G.Node, channels int) *G.Node {
	if b.err != nil {
		return nil
	}
	inputs := x.Shape()[1]
	w := b.weight(math.Sqrt(2/float64(9*inputs)), channels, inputs, 3, 3)
	return b.apply(func() (*G.Node, error) {
		return G.Conv2d(x, w, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1})
	})
}

// bias adds a number to each channel of images.
func (b *builder[T]) bias(x *G.Node) *G.Node {
	if b.err != nil {
		return nil
	}
	bias := b.weight(0, 1, x.Shape()[1], 1, 1)
	return b.apply(func() (*G.Node, error) { return G.BroadcastAdd(x, bias, nil, []byte{0, 2, 3}) })
}

// pool halves height and width: the largest of each 2 x 2.
func (b *builder[T]) pool(x *G.Node) *G.Node {
	return b.apply(func() (*G.Node, error) {
		return G.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2})
	})
}

func (b *builder[T]) rectify(x *G.Node) *G.Node {
	return b.apply(func() (*G.Node, error) { return G.Rectify(x) })
}

// flatten makes a vector of each image.
func (b *builder[T]) flatten(x *G.Node) *G.Node {
	return b.apply(func() (*G.Node, error) {
		n := x.Shape()[0]
		return G.Reshape(x, tensor.Shape{n, x.Shape().TotalSize() / n})
	})
}

// apply runs op, unless an operation before it has failed.
func (b *builder[T]) apply(op func() (*G.Node, error)) *G.Node {
	if b.err != nil {
		return nil
	}
	var node *G.Node
	node, b.err = op()
	return node
}
