package graph

// This file has the check that this Gorgonia is the one that decode knows.

import (
	"fmt"
	"reflect"
	"sync"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Check reports whether Gorgonia's structs are laid out as this package expects, with an error that is
// ErrIncompatible if not. It looks once per process.
var Check = sync.OnceValue(func() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %w", p, ErrIncompatible)
		}
	}()
	var b sample
	b.build()
	if b.err != nil {
		return fmt.Errorf("%w: %w", ErrIncompatible, b.err)
	}
	for _, s := range b.samples {
		got, err := decode(s.node)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(got, s.want) {
			return fmt.Errorf("operation %v: read %#v, want %#v: %w", s.node.Op(), got, s.want, ErrIncompatible)
		}
		kids, err := children(s.node)
		if err != nil {
			return err
		}
		for i, kid := range s.kids {
			if i >= len(kids) || kids[i] != reflect.ValueOf(kid).Pointer() {
				return fmt.Errorf("operation %v: its children are not those it was made with: %w", s.node.Op(), ErrIncompatible)
			}
		}
	}
	return nil
})

// sample is a graph with one of everything, and what must be read from it.
type sample struct {
	samples []struct {
		node *G.Node
		want Op
		kids []*G.Node
	}
	err error
}

// expect adds what op makes. Without kids, its children are not looked at.
func (b *sample) expect(want Op, kids []*G.Node, op func() (*G.Node, error)) *G.Node {
	if b.err != nil {
		return nil
	}
	n, err := op()
	if err != nil {
		b.err = err
		return nil
	}
	b.samples = append(b.samples, struct {
		node *G.Node
		want Op
		kids []*G.Node
	}{n, want, kids})
	return n
}

func (b *sample) build() {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3), G.WithName("x"))
	w := G.NewMatrix(g, tensor.Float32, G.WithShape(3, 4), G.WithName("w"))
	v := G.NewVector(g, tensor.Float32, G.WithShape(3), G.WithName("v"))
	im := G.NewTensor(g, tensor.Float32, 4, G.WithShape(2, 1, 5, 6), G.WithName("im"))
	three := G.NewTensor(g, tensor.Float32, 3, G.WithShape(2, 3, 4), G.WithName("three"))
	in := func(kids ...*G.Node) []*G.Node { return kids }

	b.expect(Input{}, nil, func() (*G.Node, error) { return x, nil })
	b.expect(MatMul{}, in(x, w), func() (*G.Node, error) { return G.Mul(x, w) })
	b.expect(MatVec{}, in(x, v), func() (*G.Node, error) { return G.Mul(x, v) })
	b.expect(Outer{}, in(v, v), func() (*G.Node, error) { return G.OuterProd(v, v) })
	b.expect(MatMul{TransB: true, Batched: true}, in(three, three), func() (*G.Node, error) {
		return G.BatchedMatMul(three, three, false, true)
	})
	b.expect(Binary{Gte}, in(x, x), func() (*G.Node, error) { return G.Gte(x, x, true) })
	b.expect(Binary{Sub}, in(x, x), func() (*G.Node, error) { return G.Sub(x, x) })
	b.expect(Unary{Softplus}, in(x), func() (*G.Node, error) { return G.Softplus(x) })
	b.expect(Unary{InvSqrt}, in(x), func() (*G.Node, error) { return G.InverseSqrt(x) })
	b.expect(Sum{[]int{1}}, in(x), func() (*G.Node, error) { return G.Sum(x, 1) })
	b.expect(Max{[]int{0}}, in(x), func() (*G.Node, error) { return G.Max(x, 0) })
	b.expect(Reshape{}, in(x), func() (*G.Node, error) { return G.Reshape(x, tensor.Shape{3, 2}) })
	b.expect(Transpose{[]int{0, 3, 1, 2}}, in(im), func() (*G.Node, error) { return G.Transpose(im, 0, 3, 1, 2) })
	b.expect(Softmax{-1, false}, in(x), func() (*G.Node, error) { return G.SoftMax(x) })
	b.expect(Softmax{0, true}, in(w), func() (*G.Node, error) { return G.LogSoftMax(w, 0) })
	b.expect(Slice{0, 1, 2, 1}, in(x), func() (*G.Node, error) { return G.Slice(x, G.S(1, 2)) })
	b.expect(Concat{1}, in(x, x), func() (*G.Node, error) { return G.Concat(1, x, x) })
	b.expect(Im2Col{Window{3, 2, 1, 0, 2, 1, 1, 2}}, in(im), func() (*G.Node, error) {
		return G.Im2Col(im, tensor.Shape{3, 2}, []int{1, 0}, []int{2, 1}, []int{1, 2})
	})
	pool := Pool{2, 3, 1, 0, 0, 1, 2, 1, true}
	b.expect(MaxPool{pool}, in(im), func() (*G.Node, error) {
		return G.MaxPool2D(im, tensor.Shape{2, 3}, []int{1, 0, 0, 1}, []int{2, 1})
	})
	b.expect(Dropout{0.25}, in(x), func() (*G.Node, error) { return G.Dropout(x, 0.25) })
	b.expectNorm(im)
	b.expectRead(x)
	b.expectDerived()
}

func (b *sample) expectNorm(im *G.Node) {
	var op *G.BatchNormOp
	_, _, _, op, err := G.BatchNorm(im, nil, nil, 0.75, 0.5)
	if err != nil {
		b.err = err
		return
	}
	b.expect(BatchNorm{0.75, 0.5, op}, []*G.Node{im}, func() (*G.Node, error) { return G.ApplyOp(op, im) })
}

func (b *sample) expectRead(x *G.Node) {
	into := new(G.Value)
	b.expect(ReadOp{into}, []*G.Node{x}, func() (*G.Node, error) { return G.Read(x, into), nil })
}

// expectDerived looks at operations that only differentiation makes.
func (b *sample) expectDerived() {
	if b.err != nil {
		return
	}
	g := G.NewGraph()
	im := G.NewTensor(g, tensor.Float64, 4, G.WithShape(2, 2, 4, 4), G.WithName("im"))
	filter := G.NewTensor(g, tensor.Float64, 4, G.WithShape(3, 2, 3, 3), G.WithName("filter"))
	layers := func(err error, next ...func(*G.Node) (*G.Node, error)) (*G.Node, error) {
		n := im
		for _, f := range next {
			if err == nil {
				n, err = f(n)
			}
		}
		return n, err
	}
	var norm *G.BatchNormOp
	cost, err := layers(nil,
		func(n *G.Node) (*G.Node, error) {
			return G.Conv2d(n, filter, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1})
		},
		func(n *G.Node) (*G.Node, error) {
			n, _, _, op, err := G.BatchNorm(n, nil, nil, 0.75, 0.5)
			norm = op
			return n, err
		},
		func(n *G.Node) (*G.Node, error) {
			return G.MaxPool2D(n, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2})
		},
		func(n *G.Node) (*G.Node, error) { return G.Dropout(n, 0.25) },
		func(n *G.Node) (*G.Node, error) { return G.Reshape(n, tensor.Shape{2, 12}) },
		func(n *G.Node) (*G.Node, error) { return G.Slice(n, nil, G.S(0, 6)) },
		func(n *G.Node) (*G.Node, error) { return G.LogSoftMax(n) },
		func(n *G.Node) (*G.Node, error) { return G.Sum(n) },
	)
	if err == nil {
		_, err = G.Grad(cost, im, filter)
	}
	if err != nil {
		b.err = err
		return
	}
	window := Window{3, 3, 1, 1, 1, 1, 1, 1}
	wanted := map[string]Op{
		"col2imOp":        Col2Im{window, 2, 2, 4, 4},
		"batchnormDiffOp": BatchNormDiff{0.5, norm},
		"maxPoolDiffOp":   MaxPoolDiff{Pool{2, 2, 0, 0, 0, 0, 2, 2, false}},
		"dropoutDiffOp":   DropoutDiff{0.25},
		"sliceIncrOp":     SliceIncr{1, 0, 6, 1},
		"softmaxDiffOp":   SoftmaxDiff{-1, true},
		"repeatOp":        Repeat{0},
		"sizeOp":          Size{0},
	}
	for _, n := range g.AllNodes() {
		if n.Op() == nil {
			continue
		}
		name := fieldsOf(n.Op()).v.Type().Name()
		if want, ok := wanted[name]; ok {
			b.expect(want, nil, func() (*G.Node, error) { return n, nil })
			delete(wanted, name)
		}
	}
	for name := range wanted {
		b.err = fmt.Errorf("a graph that should have a %s has none", name)
	}
}
