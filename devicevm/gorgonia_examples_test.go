package devicevm_test

// This file has the graphs of Gorgonia's own examples: iris, logisticregression, convnet and charRNN.

import (
	"testing"

	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

var examples = []model{
	{"iris", tensor.Shape{4}, tensor.Shape{}, func(b *builder, x, y *G.Node) *G.Node {
		pred := b.must(G.Mul(x, b.weight(1, 4)))
		return b.must(G.Mean(b.must(G.Square(b.must(G.Sub(pred, y))))))
	}},
	{"logisticregression", tensor.Shape{6}, tensor.Shape{}, func(b *builder, x, y *G.Node) *G.Node {
		w := b.weight(0.3, 6)
		one := G.NewConstant(zero(b.dt, 1))
		prob := b.must(G.Sigmoid(b.must(G.Add(b.must(G.Mul(x, w)), b.scalar("bias", 0.1)))))
		first := b.must(G.HadamardProd(b.must(G.Neg(y)), b.must(G.Log(prob))))
		second := b.must(G.HadamardProd(b.must(G.Sub(one, y)), b.must(G.Log(b.must(G.Sub(one, prob))))))
		loss := b.must(G.Mean(b.must(G.Sub(first, second))))
		squares := b.must(G.Sum(b.must(G.Square(w))))
		return b.must(G.Add(loss, b.must(G.Mul(G.NewConstant(zero(b.dt, 0.01)), squares))))
	}},
	{"convnet", tensor.Shape{1, 14, 14}, tensor.Shape{10}, func(b *builder, x, y *G.Node) *G.Node {
		for _, channels := range []int{4, 6} { // its dropout layers draw other numbers in each run
			x = b.must(G.Rectify(b.conv(x, channels)))
			x = b.must(G.MaxPool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		}
		x = b.must(G.Rectify(b.dense(b.flatten(x), 12, false)))
		out := b.must(G.SoftMax(b.dense(x, 10, false)))
		losses := b.must(G.HadamardProd(b.must(G.Log(out)), y))
		return b.must(G.Neg(b.must(G.Mean(losses))))
	}},
	{"charRNN", tensor.Shape{1}, tensor.Shape{1}, func(b *builder, _, _ *G.Node) *G.Node {
		const hidden, embedded, characters = 5, 4, 7
		c := lstm{b: b}
		for i := range c.wx {
			c.wx[i], c.wh[i], c.bias[i] = b.weight(0.4, hidden, embedded), b.weight(0.4, hidden, hidden), b.weight(0.1, hidden)
		}
		decode, offset, embedding := b.weight(0.4, characters, hidden), b.weight(0.1, characters), b.weight(0.4, characters, embedded)
		state := func(name string) *G.Node {
			v := tensor.New(tensor.Of(b.dt), tensor.WithShape(hidden))
			return G.NewVector(b.graph, b.dt, G.WithShape(hidden), G.WithName(name), G.WithValue(v))
		}
		h, cell := state("hidden"), state("cell")
		var cost *G.Node
		text := []int{0, 3, 5, 3, 6}
		for i, source := range text[:len(text)-1] {
			h, cell = c.step(b.must(G.Slice(embedding, G.S(source))), h, cell)
			probs := b.must(G.SoftMax(b.must(G.Add(b.must(G.Mul(decode, h)), offset))))
			loss := b.must(G.Slice(b.must(G.Neg(b.must(G.Log(probs)))), G.S(text[i+1])))
			if cost == nil {
				cost = loss
			} else {
				cost = b.must(G.Add(cost, loss))
			}
		}
		return cost
	}},
}

// lstm is charRNN's cell: input, forget and output gate, and what is written.
type lstm struct {
	b            *builder
	wx, wh, bias [4]*G.Node
}

func (c *lstm) step(x, h, cell *G.Node) (*G.Node, *G.Node) {
	b := c.b
	gate := func(i int) *G.Node {
		sum := b.must(G.Add(b.must(G.Mul(c.wx[i], x)), b.must(G.Mul(c.wh[i], h))))
		return b.must(G.Add(sum, c.bias[i]))
	}
	in, forget, out := b.must(G.Sigmoid(gate(0))), b.must(G.Sigmoid(gate(1))), b.must(G.Sigmoid(gate(2)))
	write := b.must(G.HadamardProd(in, b.must(G.Tanh(gate(3)))))
	cell = b.must(G.Add(b.must(G.HadamardProd(forget, cell)), write))
	return b.must(G.HadamardProd(out, b.must(G.Tanh(cell)))), cell
}

func TestGorgoniaExamples(t *testing.T) {
	for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
		for _, m := range examples {
			t.Run(m.name+"/"+dt.String(), func(t *testing.T) {
				leak.Check(t)
				solver := func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.05)) }
				want := trainTape(t, newNetwork(t, m, dt, 6), solver(), steps)
				noFallbacks(t, newNetwork(t, m, dt, 6))
				got := trainDevice(t, newNetwork(t, m, dt, 6), openDevice(t), solver(), true, steps)
				compare(t, got, want, tolerance(dt))
			})
		}
	}
}
