package devicevm_test

// This file compares random graphs with Gorgonia's operations applied one by one, each to copies. tapeMachine is not
// the measure here: it reuses registers wrongly in some graphs.

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

// randomGraph is a graph in the making.
type randomGraph struct {
	t     *rapid.T
	g     *G.ExprGraph
	nodes []*G.Node
}

// pick returns a node, of the given number of axes unless that is negative.
func (r *randomGraph) pick(axes int) *G.Node {
	var fit []*G.Node
	for _, n := range r.nodes {
		if axes < 0 || len(n.Shape()) == axes {
			fit = append(fit, n)
		}
	}
	if fit == nil {
		return nil
	}
	return rapid.SampledFrom(fit).Draw(r.t, "node")
}

// pickLike returns a node of the shape of n.
func (r *randomGraph) pickLike(n *G.Node) *G.Node {
	var fit []*G.Node
	for _, m := range r.nodes {
		if slices.Equal(m.Shape(), n.Shape()) {
			fit = append(fit, m)
		}
	}
	return rapid.SampledFrom(fit).Draw(r.t, "same shape")
}

// grow adds an operation, if what was drawn fits.
func (r *randomGraph) grow() (*G.Node, error) {
	a := r.pick(-1)
	shape := a.Shape()
	switch rapid.IntRange(0, 10).Draw(r.t, "operation") {
	case 0:
		return G.Tanh(a)
	case 1:
		return G.Neg(a)
	case 2:
		return G.Add(a, r.pickLike(a))
	case 3:
		return G.HadamardProd(a, r.pickLike(a))
	case 4:
		return G.Sub(a, G.NewConstant(0.5))
	case 5:
		if m := r.pick(2); m != nil {
			return G.Sum(m, rapid.IntRange(0, 1).Draw(r.t, "axis"))
		}
	case 6:
		if m := r.pick(2); m != nil {
			return G.Transpose(m, 1, 0)
		}
	case 7:
		if len(shape) == 2 {
			return G.Reshape(a, tensor.Shape{shape[1], shape[0]})
		}
	case 8:
		if len(shape) == 2 {
			for _, m := range r.nodes {
				if s := m.Shape(); len(s) == 2 && s[0] == shape[1] {
					return G.Mul(a, m)
				}
			}
		}
	case 9:
		if len(shape) == 2 {
			row, err := G.Slice(a, G.S(0, 1))
			if err != nil {
				return nil, err
			}
			if row, err = G.Reshape(row, tensor.Shape{1, shape[1]}); err != nil {
				return nil, err
			}
			return G.BroadcastAdd(a, row, nil, []byte{0})
		}
	case 10:
		if len(shape) == 2 {
			return G.Rectify(a)
		}
	}
	return nil, nil
}

// evaluate returns the value of n by Gorgonia's own operations, or nil if they can't compute it.
func evaluate(n *graph.Node, vals map[*graph.Node]G.Value) G.Value {
	if v, ok := vals[n]; ok {
		return v
	}
	switch op := n.Op.(type) {
	case graph.Input:
		return n.Src.Value()
	case graph.Const:
		return op.Value
	}
	var operands []G.Value
	for _, c := range n.In {
		v := evaluate(c, vals)
		if v == nil {
			return nil
		}
		clone, err := G.CloneValue(v)
		if err != nil {
			return nil
		}
		operands = append(operands, clone)
	}
	v, err := n.Src.Op().Do(operands...)
	if err != nil {
		v = nil
	}
	vals[n] = v
	return v
}

func near(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i, x := range b {
		if d := math.Abs(a[i] - x); !(d <= 1e-9*max(1, math.Abs(x))) {
			return false
		}
	}
	return true
}

func TestRandomGraphs(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	rapid.Check(t, func(t *rapid.T) {
		r := &randomGraph{t: t, g: G.NewGraph()}
		rng := rand.New(rand.NewPCG(1, 1))
		for i, s := range []tensor.Shape{{3, 4}, {3, 4}, {4, 3}, {4}} {
			r.nodes = append(r.nodes, G.NodeFromAny(r.g, random(rng, tensor.Float64, 1, s...), G.WithName(string(rune('a'+i)))))
		}
		for range rapid.IntRange(1, 14).Draw(t, "operations") {
			n, err := r.grow()
			if err != nil {
				t.Skip(err)
			}
			if n != nil {
				r.nodes = append(r.nodes, n)
			}
		}
		read, err := graph.Read(r.g)
		if err != nil {
			t.Fatal(err)
		}
		vals := map[*graph.Node]G.Value{}
		kept := r.nodes[rapid.IntRange(0, len(r.nodes)-1).Draw(t, "kept"):]
		for _, opts := range [][]devicevm.Option{nil, {devicevm.WithNaNWatch()}} {
			vm, err := devicevm.New(r.g, dev, append(opts, devicevm.WithValues(kept...))...)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := vm.RunAll(); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range kept {
				want := evaluate(read.Of(n), vals)
				if want == nil {
					continue
				}
				got, err := vm.Value(n)
				if err != nil {
					t.Fatal(err)
				}
				if !near(floats(t, got), floats(t, want)) {
					t.Errorf("%v, fused %v: %v, want %v", read.Of(n), opts == nil, got, want)
				}
			}
			if err := vm.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
