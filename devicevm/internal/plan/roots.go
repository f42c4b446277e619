package plan

// This file decides what a program computes, and drops the rest.

import "github.com/pintensor/pin/devicevm/internal/graph"

// Roots returns what a user may look at after a run, each once: what Read nodes read, the gradients of inputs,
// the cost, and what nothing else uses. Gradients that nobody asked for, which nothing uses either, are not
// among them: differentiation leaves that of the input of the first layer, for example.
func Roots(g *graph.Graph, extra ...*graph.Node) []*graph.Node {
	used := make([]bool, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, c := range n.In {
			used[c.Index] = true
		}
	}
	var roots []*graph.Node
	listed := make([]bool, len(g.Nodes))
	add := func(n *graph.Node) {
		if n != nil && !listed[n.Index] {
			listed[n.Index] = true
			roots = append(roots, n)
		}
	}
	for _, n := range g.Nodes {
		deriv := g.Of(n.Src.Deriv())
		switch n.Op.(type) {
		case graph.ReadOp:
			add(n.In[0])
		case graph.Assign, graph.Const:
		case graph.Input:
			add(deriv)
		default:
			if !used[n.Index] && !n.Derived {
				add(n)
			}
			if deriv != nil && n.Size() == 1 {
				if _, ok := deriv.Op.(graph.Const); ok { // d cost / d cost
					add(n)
				}
			}
		}
	}
	for _, n := range extra {
		add(n)
	}
	return roots
}

// needs returns what must be computed before n: its children but for those that only shapes are taken of, and
// the forward operations whose memory the gradients use.
func (b *builder) needs(n *graph.Node) []*graph.Node {
	switch op := n.Op.(type) {
	case graph.Size, graph.Const, graph.Assign:
		return nil
	case graph.Repeat:
		return n.In[:1]
	case graph.BatchNormDiff:
		if norm := b.norms[op.Op]; norm != nil {
			return append([]*graph.Node{norm}, n.In...)
		}
	}
	return n.In
}

// order lists what the roots need in an order in which it can be computed: that of the graph, but that a
// gradient may need its forward operation before.
func (b *builder) order(roots []*graph.Node) {
	seen := make([]bool, len(b.graph.Nodes))
	visit := func(n *graph.Node) {
		type frame struct {
			n    *graph.Node
			kids []*graph.Node
		}
		if seen[n.Index] {
			return
		}
		seen[n.Index] = true
		stack := []frame{{n, b.needs(n)}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.kids) == 0 {
				b.live = append(b.live, top.n)
				stack = stack[:len(stack)-1]
				continue
			}
			kid := top.kids[0]
			top.kids = top.kids[1:]
			if !seen[kid.Index] {
				seen[kid.Index] = true
				stack = append(stack, frame{kid, b.needs(kid)})
			}
		}
	}
	for _, n := range roots {
		visit(n)
	}
}
