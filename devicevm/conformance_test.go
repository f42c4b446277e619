package devicevm_test

// This file compares every operation, forward and backward, with tapeMachine, in both dtypes and in odd shapes.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// operation is one case: inputs of the given shapes, and what is computed from them.
type operation struct {
	name     string
	shapes   []tensor.Shape
	build    func(in []*G.Node) (*G.Node, error)
	positive bool // the inputs
	nondiff  bool // there is no gradient
	fallback bool // the operation computes itself
}

func unary(name string, f func(*G.Node) (*G.Node, error), positive bool, shapes ...tensor.Shape) []operation {
	if shapes == nil {
		shapes = []tensor.Shape{{7}, {3, 5}, {2, 3, 1, 5}, {1, 1}, {}, {33, 67}}
	}
	var list []operation
	for _, s := range shapes {
		list = append(list, operation{
			name: fmt.Sprint(name, s), shapes: []tensor.Shape{s}, positive: positive,
			build: func(in []*G.Node) (*G.Node, error) { return f(in[0]) },
		})
	}
	return list
}

func binary(name string, f func(a, b *G.Node) (*G.Node, error), positive bool) []operation {
	var list []operation
	for _, s := range [][]tensor.Shape{{{7}, {7}}, {{3, 5}, {3, 5}}, {{3, 5}, {}}, {{}, {3, 5}}, {{}, {}}, {{41, 53}, {41, 53}}} {
		list = append(list, operation{
			name: fmt.Sprint(name, s), shapes: s, positive: positive,
			build: func(in []*G.Node) (*G.Node, error) { return f(in[0], in[1]) },
		})
	}
	return list
}

func compareOp(f func(a, b *G.Node, same bool) (*G.Node, error)) func(a, b *G.Node) (*G.Node, error) {
	return func(a, b *G.Node) (*G.Node, error) { return f(a, b, true) }
}

func nondiff(list []operation) []operation {
	for i := range list {
		list[i].nondiff = true
	}
	return list
}

func shapes(s ...tensor.Shape) []tensor.Shape { return s }

func operations() []operation {
	return slices.Concat(
		unary("Abs", G.Abs, false), nondiff(unary("Sign", G.Sign, false, tensor.Shape{3, 5})),
		nondiff(unary("Ceil", G.Ceil, false)), nondiff(unary("Floor", G.Floor, false)),
		unary("Sin", G.Sin, false), unary("Cos", G.Cos, false), unary("Exp", G.Exp, false),
		unary("Log", G.Log, true), unary("Log2", G.Log2, true), unary("Neg", G.Neg, false), unary("Square", G.Square, false),
		unary("Sqrt", G.Sqrt, true), unary("Inverse", G.Inverse, true), unary("InverseSqrt", G.InverseSqrt, true),
		unary("Cube", G.Cube, false), unary("Tanh", G.Tanh, false), unary("Sigmoid", G.Sigmoid, false),
		unary("Log1p", G.Log1p, true), unary("Expm1", G.Expm1, false), unary("Softplus", G.Softplus, false),
		unary("Rectify", G.Rectify, false, tensor.Shape{3, 5}, tensor.Shape{2, 3, 1, 5}),
		binary("Add", G.Add, false), binary("Sub", G.Sub, false), binary("HadamardProd", G.HadamardProd, false),
		binary("HadamardDiv", G.HadamardDiv, true), nondiff(binary("Pow", G.Pow, true)),
		nondiff(binary("Lt", compareOp(G.Lt), false)), nondiff(binary("Gt", compareOp(G.Gt), false)),
		nondiff(binary("Lte", compareOp(G.Lte), false)), nondiff(binary("Gte", compareOp(G.Gte), false)),
		nondiff(binary("Eq", compareOp(G.Eq), false)), nondiff(binary("Ne", compareOp(G.Ne), false)),
		linear(), reductions(), layouts(), softmaxes(), images(), others(),
	)
}

func linear() []operation {
	mul := func(in []*G.Node) (*G.Node, error) { return G.Mul(in[0], in[1]) }
	batched := func(trans ...bool) func(in []*G.Node) (*G.Node, error) {
		return func(in []*G.Node) (*G.Node, error) { return G.BatchedMatMul(in[0], in[1], trans...) }
	}
	return []operation{
		{name: "MatMul", shapes: shapes(tensor.Shape{3, 5}, tensor.Shape{5, 7}), build: mul},
		{name: "MatMul1", shapes: shapes(tensor.Shape{1, 5}, tensor.Shape{5, 1}), build: mul},
		{name: "MatMulLarge", shapes: shapes(tensor.Shape{65, 129}, tensor.Shape{129, 67}), build: mul},
		{name: "MatVec", shapes: shapes(tensor.Shape{3, 5}, tensor.Shape{5}), build: mul},
		// tapeMachine fails in the gradient of this one.
		{name: "OuterProd", shapes: shapes(tensor.Shape{3}, tensor.Shape{5}), nondiff: true, build: func(in []*G.Node) (*G.Node, error) {
			return G.OuterProd(in[0], in[1])
		}},
		{name: "Dot", shapes: shapes(tensor.Shape{5}, tensor.Shape{5}), build: mul},
		{name: "BatchedMatMul", shapes: shapes(tensor.Shape{4, 3, 5}, tensor.Shape{4, 5, 2}), build: batched()},
		{name: "BatchedMatMul4", shapes: shapes(tensor.Shape{2, 2, 3, 5}, tensor.Shape{2, 2, 5, 2}), build: batched()},
		{name: "BatchedMatMulT", shapes: shapes(tensor.Shape{4, 5, 3}, tensor.Shape{4, 2, 5}), build: batched(true, true), nondiff: true},
	}
}

func reductions() []operation {
	var list []operation
	for _, c := range []struct {
		shape tensor.Shape
		along []int
	}{
		{tensor.Shape{5}, nil}, {tensor.Shape{3, 5}, nil}, {tensor.Shape{3, 5}, []int{0}}, {tensor.Shape{3, 5}, []int{1}},
		{tensor.Shape{2, 3, 4}, []int{1}}, {tensor.Shape{2, 3, 4}, []int{0}}, {tensor.Shape{2, 3, 4}, []int{2}},
		{tensor.Shape{2, 3, 4, 5}, nil}, {tensor.Shape{67, 301}, []int{0}}, {tensor.Shape{67, 301}, []int{1}}, {tensor.Shape{1, 4}, []int{0}},
	} {
		list = append(list, operation{name: fmt.Sprint("Sum", c.shape, c.along), shapes: shapes(c.shape), build: func(in []*G.Node) (*G.Node, error) {
			return G.Sum(in[0], c.along...)
		}})
		list = append(list, operation{name: fmt.Sprint("Mean", c.shape, c.along), shapes: shapes(c.shape), build: func(in []*G.Node) (*G.Node, error) {
			return G.Mean(in[0], c.along...)
		}})
		list = append(list, operation{name: fmt.Sprint("Max", c.shape, c.along), shapes: shapes(c.shape), nondiff: true, build: func(in []*G.Node) (*G.Node, error) {
			return G.Max(in[0], c.along...)
		}})
	}
	return list
}

func layouts() []operation {
	list := []operation{
		{name: "Reshape", shapes: shapes(tensor.Shape{3, 4}), build: func(in []*G.Node) (*G.Node, error) { return G.Reshape(in[0], tensor.Shape{2, 6}) }},
		{name: "ReshapeThenTanh", shapes: shapes(tensor.Shape{3, 4}), build: func(in []*G.Node) (*G.Node, error) {
			n, err := G.Reshape(in[0], tensor.Shape{2, 6})
			if err != nil {
				return nil, err
			}
			return G.Tanh(n)
		}},
		{name: "Concat0", shapes: shapes(tensor.Shape{3, 4}, tensor.Shape{2, 4}), build: func(in []*G.Node) (*G.Node, error) { return G.Concat(0, in[0], in[1]) }},
		{name: "Concat1", shapes: shapes(tensor.Shape{3, 4}, tensor.Shape{3, 5}), build: func(in []*G.Node) (*G.Node, error) { return G.Concat(1, in[0], in[1]) }},
		{name: "ConcatVectors", shapes: shapes(tensor.Shape{3}, tensor.Shape{4}), build: func(in []*G.Node) (*G.Node, error) { return G.Concat(0, in[0], in[1]) }},
		{name: "Slice0", shapes: shapes(tensor.Shape{5, 4}), build: func(in []*G.Node) (*G.Node, error) { return G.Slice(in[0], G.S(1, 3)) }},
		{name: "Slice1", shapes: shapes(tensor.Shape{5, 4}), build: func(in []*G.Node) (*G.Node, error) { return G.Slice(in[0], nil, G.S(2, 4)) }},
		{name: "SliceRow", shapes: shapes(tensor.Shape{5, 4}), build: func(in []*G.Node) (*G.Node, error) { return G.Slice(in[0], G.S(2)) }},
		{name: "SliceColumn", shapes: shapes(tensor.Shape{5, 4}), build: func(in []*G.Node) (*G.Node, error) { return G.Slice(in[0], nil, G.S(2)) }},
		{name: "SliceElement", shapes: shapes(tensor.Shape{5}), build: func(in []*G.Node) (*G.Node, error) { return G.Slice(in[0], G.S(2)) }},
		{name: "BroadcastAdd0", shapes: shapes(tensor.Shape{5, 4}, tensor.Shape{1, 4}), build: func(in []*G.Node) (*G.Node, error) {
			return G.BroadcastAdd(in[0], in[1], nil, []byte{0})
		}},
		{name: "BroadcastMul1", shapes: shapes(tensor.Shape{5, 4}, tensor.Shape{5, 1}), build: func(in []*G.Node) (*G.Node, error) {
			return G.BroadcastHadamardProd(in[0], in[1], nil, []byte{1})
		}},
		{name: "BroadcastSubLeft", shapes: shapes(tensor.Shape{1, 4}, tensor.Shape{5, 4}), build: func(in []*G.Node) (*G.Node, error) {
			return G.BroadcastSub(in[0], in[1], []byte{0}, nil)
		}},
		{name: "BroadcastBoth", shapes: shapes(tensor.Shape{2, 3, 4, 5}, tensor.Shape{1, 3, 1, 1}), build: func(in []*G.Node) (*G.Node, error) {
			return G.BroadcastAdd(in[0], in[1], nil, []byte{0, 2, 3})
		}},
	}
	for _, p := range [][]int{{1, 0}, {0, 3, 1, 2}, {3, 1, 0, 2}, {2, 0, 1}, {0, 2, 1}} {
		shape := tensor.Shape{3, 4, 2, 5}[:len(p)]
		list = append(list, operation{name: fmt.Sprint("Transpose", p), shapes: shapes(shape), build: func(in []*G.Node) (*G.Node, error) {
			return G.Transpose(in[0], p...)
		}})
	}
	return list
}

func softmaxes() []operation {
	var list []operation
	for _, c := range []struct {
		shape tensor.Shape
		axis  []int
	}{
		{tensor.Shape{5}, nil}, {tensor.Shape{3, 5}, nil}, {tensor.Shape{3, 5}, []int{0}}, {tensor.Shape{3, 5}, []int{1}}, {tensor.Shape{2, 3, 4}, []int{1}},
		{tensor.Shape{1, 5}, nil}, {tensor.Shape{70, 130}, nil},
	} {
		list = append(list, operation{name: fmt.Sprint("SoftMax", c.shape, c.axis), shapes: shapes(c.shape), build: func(in []*G.Node) (*G.Node, error) {
			return G.SoftMax(in[0], c.axis...)
		}}, operation{name: fmt.Sprint("LogSoftMax", c.shape, c.axis), shapes: shapes(c.shape), build: func(in []*G.Node) (*G.Node, error) {
			return G.LogSoftMax(in[0], c.axis...)
		}})
	}
	return list
}

func images() []operation {
	var list []operation
	for _, c := range []struct {
		image, kernel         tensor.Shape
		pad, stride, dilation []int
	}{
		{tensor.Shape{2, 1, 5, 5}, tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}},
		{tensor.Shape{3, 2, 7, 6}, tensor.Shape{3, 2}, []int{0, 1}, []int{2, 1}, []int{1, 2}},
		{tensor.Shape{1, 3, 4, 9}, tensor.Shape{1, 1}, []int{0, 0}, []int{1, 1}, []int{1, 1}},
		{tensor.Shape{2, 2, 9, 9}, tensor.Shape{2, 3}, []int{2, 2}, []int{3, 2}, []int{2, 1}},
	} {
		filter := tensor.Shape{3, c.image[1], c.kernel[0], c.kernel[1]}
		list = append(list, operation{name: fmt.Sprint("Conv2d", c.image, c.kernel, c.pad, c.stride, c.dilation), shapes: shapes(c.image, filter), build: func(in []*G.Node) (*G.Node, error) {
			return G.Conv2d(in[0], in[1], c.kernel, c.pad, c.stride, c.dilation)
		}})
	}
	for _, c := range []struct {
		image, kernel tensor.Shape
		pad, stride   []int
	}{
		{tensor.Shape{2, 3, 6, 6}, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}},
		{tensor.Shape{1, 2, 7, 5}, tensor.Shape{3, 2}, []int{1, 0}, []int{1, 2}},
		{tensor.Shape{2, 1, 5, 5}, tensor.Shape{3, 3}, []int{1, 1}, []int{2, 2}},
	} {
		list = append(list, operation{name: fmt.Sprint("MaxPool2D", c.image, c.kernel, c.pad, c.stride), shapes: shapes(c.image), build: func(in []*G.Node) (*G.Node, error) {
			return G.MaxPool2D(in[0], c.kernel, c.pad, c.stride)
		}})
	}
	for _, s := range []tensor.Shape{{4, 3, 2, 3}, {6, 3, 1, 1}, {5, 7}} {
		list = append(list, operation{name: fmt.Sprint("BatchNorm", s), shapes: shapes(s, s, s), build: func(in []*G.Node) (*G.Node, error) {
			n, _, _, _, err := G.BatchNorm(in[0], in[1], in[2], 0.9, 1e-3)
			return n, err
		}})
	}
	return list
}

// others are known to compute themselves.
func others() []operation {
	return []operation{
		{name: "GlobalAveragePool2D", shapes: shapes(tensor.Shape{2, 3, 4, 5}), fallback: true, nondiff: true, build: func(in []*G.Node) (*G.Node, error) {
			return G.GlobalAveragePool2D(in[0])
		}},
		{name: "Upsample2D", shapes: shapes(tensor.Shape{1, 1, 3, 3}), fallback: true, build: func(in []*G.Node) (*G.Node, error) {
			return G.Upsample2D(in[0], 2)
		}},
		{name: "AveragePool2D", shapes: shapes(tensor.Shape{2, 2, 4, 4}), fallback: true, build: func(in []*G.Node) (*G.Node, error) {
			return G.AveragePool2D(in[0], tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2})
		}},
	}
}

// instance is an operation in a graph of its own, with a cost to differentiate.
type instance struct {
	graph  *G.ExprGraph
	inputs G.Nodes
	values []*tensor.Dense
	result *read
}

func (op operation) instance(t *testing.T, dt tensor.Dtype) *instance {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 9))
	n := &instance{graph: G.NewGraph(), result: new(read)}
	for i, s := range op.shapes {
		v := random(rng, dt, 1, s...)
		if op.positive {
			if _, err := v.Apply(positive(dt), tensor.UseUnsafe()); err != nil {
				t.Fatal(err)
			}
		}
		n.values = append(n.values, v)
		node := input(n.graph, fmt.Sprint("in", i), v)
		n.inputs = append(n.inputs, node)
	}
	out, err := op.build(n.inputs)
	if err != nil {
		t.Fatal(err)
	}
	G.Read(out, &n.result.v)
	if op.nondiff {
		return n
	}
	cost := out
	if !out.IsScalar() {
		weights := random(rng, dt, 1, out.Shape()...)
		if cost, err = G.HadamardProd(out, G.NewConstant(weights)); err == nil {
			cost, err = G.Sum(cost)
		}
	}
	if err == nil {
		_, err = G.Grad(cost, n.inputs...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// input returns a node whose value is a copy of v: a scalar of Gorgonia's for a scalar.
func input(g *G.ExprGraph, name string, v *tensor.Dense) *G.Node {
	if v.IsScalar() {
		return G.NewScalar(g, v.Dtype(), G.WithName(name), G.WithValue(v.ScalarValue()))
	}
	return G.NodeFromAny(g, v.Clone(), G.WithName(name))
}

func positive(dt tensor.Dtype) any {
	if dt == tensor.Float32 {
		return func(x float32) float32 { return x*x/2 + 0.3 }
	}
	return func(x float64) float64 { return x*x/2 + 0.3 }
}

// trace runs vm and returns the result and the gradients.
func (n *instance) trace(t *testing.T, op operation, vm G.VM) trace {
	t.Helper()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	tr := trace{n.result.floats(t)}
	if op.nondiff {
		return tr
	}
	for _, in := range n.inputs {
		g, err := in.Grad()
		if err != nil {
			t.Fatal(err)
		}
		tr = append(tr, floats(t, g))
	}
	return tr
}

func TestOperations(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	for _, op := range operations() {
		for _, dt := range []tensor.Dtype{tensor.Float32, tensor.Float64} {
			t.Run(op.name+"/"+dt.String(), func(t *testing.T) {
				ref := op.instance(t, dt)
				tape := G.NewTapeMachine(ref.graph, G.BindDualValues(ref.inputs...))
				defer tape.Close()
				want := ref.trace(t, op, tape)

				n := op.instance(t, dt)
				vm, err := devicevm.New(n.graph, dev)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := vm.Close(); err != nil {
						t.Error(err)
					}
				}()
				if list := vm.Fallbacks(); (len(list) > 0) != op.fallback {
					t.Errorf("fallbacks: %v", list)
				}
				compare(t, n.trace(t, op, vm), want, tolerance(dt))
				compare(t, n.trace(t, op, vm), want, tolerance(dt)) // gradients do not add up
				for i, v := range n.values {
					if got := n.inputs[i].Value(); !equal(t, got, v) {
						t.Errorf("input %d was written to: %v, was %v", i, got, v)
					}
				}
			})
		}
	}
}

func equal(t *testing.T, a, b G.Value) bool {
	return slices.Equal(floats(t, a), floats(t, b))
}
