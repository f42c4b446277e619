package main

import (
	"math"
	"math/rand/v2"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

const size = 64 // of a batch

// network is a graph, differentiated.
type network struct {
	graph   *G.ExprGraph
	x, y    *G.Node
	weights G.Nodes
	loss    G.Value
}

// build returns a network of 2-32-32-1, the same each time.
func build() *network {
	n := &network{graph: G.NewGraph()}
	random := rand.New(rand.NewPCG(1, 2))
	n.x = G.NewMatrix(n.graph, tensor.Float64, G.WithShape(size, 2), G.WithName("x"))
	n.y = G.NewMatrix(n.graph, tensor.Float64, G.WithShape(size, 1), G.WithName("y"))
	dense := func(x *G.Node, in, out int) *G.Node {
		weight := func(name string, deviation float64, rows int) *G.Node {
			data := make([]float64, rows*out)
			for i := range data {
				data[i] = random.NormFloat64() * deviation
			}
			v := tensor.New(tensor.WithShape(rows, out), tensor.WithBacking(data))
			w := G.NewMatrix(n.graph, tensor.Float64, G.WithShape(rows, out), G.WithName(name), G.WithValue(v))
			n.weights = append(n.weights, w)
			return w
		}
		xw := G.Must(G.Mul(x, weight("w", math.Sqrt(1/float64(in)), in)))
		return G.Must(G.BroadcastAdd(xw, weight("b", 0, 1), nil, []byte{0}))
	}
	h := G.Must(G.Tanh(dense(n.x, 2, 32)))
	h = G.Must(G.Tanh(dense(h, 32, 32)))
	guess := G.Must(G.Tanh(dense(h, 32, 1)))
	loss := G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(guess, n.y))))))
	G.Read(loss, &n.loss)
	if _, err := G.Grad(loss, n.weights...); err != nil {
		panic(err) // the graph is what it is
	}
	return n
}

// batch is points, and 1 or -1 for the moon that each lies on.
type batch struct{ x, y *tensor.Dense }

// moons returns batches of points.
func moons(batches, size int) []batch {
	random := rand.New(rand.NewPCG(3, 4))
	list := make([]batch, batches)
	for i := range list {
		x, y := make([]float64, 2*size), make([]float64, size)
		for k := range size {
			side := float64(2*random.IntN(2) - 1)
			angle := math.Pi * random.Float64()
			x[2*k] = side*math.Cos(angle) + 0.5*side + 0.1*random.NormFloat64()
			x[2*k+1] = side*math.Sin(angle) - 0.25*side + 0.1*random.NormFloat64()
			y[k] = side
		}
		list[i] = batch{
			tensor.New(tensor.WithShape(size, 2), tensor.WithBacking(x)),
			tensor.New(tensor.WithShape(size, 1), tensor.WithBacking(y)),
		}
	}
	return list
}
