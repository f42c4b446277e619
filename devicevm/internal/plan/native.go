package plan

// This file says which operations have a step of their own kind; the others compute themselves.

import "github.com/pintensor/pin/devicevm/internal/graph"

// elementwise reports whether every element of n comes from one element of each child.
func (b *builder) elementwise(n *graph.Node) bool {
	switch n.Op.(type) {
	case graph.Binary:
	case graph.Unary:
		if b.Bugs && n.Op == (graph.Unary{Kind: graph.Sign}) {
			return false
		}
	default:
		return false
	}
	if !n.Float() {
		return false
	}
	for _, c := range n.In {
		if c.Size() != n.Size() && c.Size() != 1 {
			return false
		}
	}
	return true
}

// native reports whether n's shapes and dtypes are what its kind of step computes.
func (b *builder) native(n *graph.Node) bool {
	in := func(i int) []int { return n.In[i].Shape }
	switch op := n.Op.(type) {
	case graph.MatMul:
		return n.Float() && matMulFits(op, in(0), in(1), n.Shape)
	case graph.MatVec:
		return n.Float() && len(in(0)) == 2 && len(in(1)) == 1 && matVecFits(op, in(0), in(1), n.Size())
	case graph.Dot:
		return n.Float() && n.Size() == 1 && n.In[0].Size() == n.In[1].Size()
	case graph.Outer:
		return n.Float() && n.Size() == n.In[0].Size()*n.In[1].Size()
	case graph.Sum:
		return n.Float() && reducible(op.Along, n)
	case graph.Max:
		return n.Float() && reducible(op.Along, n)
	case graph.Repeat:
		return n.Float(1) && repeats(op, n)
	case graph.Transpose:
		return n.Float() && len(op.Pattern) == len(n.Shape) && len(in(0)) == len(n.Shape)
	case graph.Softmax:
		return !b.Bugs && n.Float() && len(n.Shape) > 0 && op.Axis < len(n.Shape) && n.In[0].Size() == n.Size()
	case graph.SoftmaxDiff:
		return !b.Bugs && n.Float() && len(n.Shape) > 0 && op.Axis < len(n.Shape) && n.In[1].Size() == n.Size() &&
			n.In[2].Size() == n.Size()
	case graph.Im2Col, graph.Col2Im:
		return n.Float() && len(n.Shape) == 4 && len(in(0)) == 4
	case graph.MaxPool:
		return !b.Bugs && n.Float()
	case graph.MaxPoolDiff:
		return !b.Bugs && n.Float()
	case graph.Dropout, graph.DropoutDiff:
		return !b.Bugs && n.Float()
	case graph.BatchNorm, graph.BatchNormDiff:
		return !b.Bugs && n.Float() && len(n.Shape) >= 2
	case graph.Slice:
		return n.Float() && op.Along < len(in(0))
	case graph.SliceIncr:
		return n.Float() && op.Along < len(n.Shape) && sliceFits(op, n)
	case graph.Concat:
		return n.Float() && op.Axis < len(n.Shape)
	}
	return false
}

// matMulFits reports whether the shapes are of a product of matrices.
func matMulFits(op graph.MatMul, a, b, c []int) bool {
	dims := len(c)
	if dims < 2 || len(a) != dims || len(b) != dims || dims > 2 && !op.Batched {
		return false
	}
	a, b, c = a[dims-2:], b[dims-2:], c[dims-2:]
	m, k := a[0], a[1]
	if op.TransA {
		m, k = k, m
	}
	k2, n := b[0], b[1]
	if op.TransB {
		k2, n = n, k2
	}
	return k == k2 && m == c[0] && n == c[1]
}

func matVecFits(op graph.MatVec, a, x []int, size int) bool {
	m, k := a[0], a[1]
	if op.Trans {
		m, k = k, m
	}
	return k == x[0] && m == size
}

// reducible reports whether the axes are some of the child's, and the result what is left of it.
func reducible(along []int, n *graph.Node) bool {
	left := 1
	seen := map[int]bool{}
	for _, a := range along {
		if a < 0 || a >= len(n.In[0].Shape) || seen[a] {
			return false
		}
		seen[a] = true
	}
	for i, d := range n.In[0].Shape {
		if !seen[i] && len(along) > 0 {
			left *= d
		}
	}
	return left == n.Size()
}

// repeats reports whether the shapes say how often is repeated.
func repeats(op graph.Repeat, n *graph.Node) bool {
	in := n.In[0].Size()
	return op.Along >= 0 && op.Along < len(n.Shape) && in > 0 && n.Size()%in == 0
}

// sliceFits reports whether the second child has the size of the slice.
func sliceFits(op graph.SliceIncr, n *graph.Node) bool {
	length := n.Shape[op.Along]
	if length == 0 {
		return false
	}
	start, end := op.Start, op.End
	if end < 0 || end > length {
		end = length
	}
	count := (end - start + op.Step - 1) / op.Step
	size := n.In[1].Size()
	return size == n.Size()/length*count || size == 1
}
