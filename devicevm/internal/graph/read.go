// Package graph reads a Gorgonia graph, once, into a form that needs no look at Gorgonia's internals any more.
//
// The order is that of a depth-first walk over the nodes' own children. Gorgonia's own sort walks a cache of
// identifiers that is stale once a node has been removed, and nodes are removed as graphs are built
// (log(softmax(x)) becomes logsoftmax(x)).
//
// Half of what is read is in unexported fields. [Check] builds a small graph with one of everything and compares
// what it reads: with a Gorgonia whose fields differ, nothing is misread, but refused.
//
// # Ownership
//
// Gorgonia's graph stays the user's, and is not written to. A [Graph] refers to its nodes.
//
// # Concurrency
//
// The functions keep no state, but for Check, which looks once. Nobody may change the graph while it is read.
//
// # Errors
//
// [ErrIncompatible] and [ErrInvalid], with the node. Nothing panics.
//
// # Platforms
//
// All that Go runs on.
package graph

import (
	"errors"
	"fmt"
	"reflect"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

var (
	// ErrIncompatible: this Gorgonia is not laid out as the one that this package was written for.
	ErrIncompatible = errors.New("incompatible version of gorgonia")

	// ErrInvalid: a node is not what a graph may have.
	ErrInvalid = errors.New("invalid graph")
)

// Node is a node of the graph.
type Node struct {
	Src   *G.Node
	Op    Op
	In    []*Node
	Dtype tensor.Dtype // none for statements
	Shape tensor.Shape // empty for a scalar
	Index int          // in Graph.Nodes

	// Derived: differentiation made the node, which the user knows nothing of.
	Derived bool
}

// Size returns the number of elements, 1 for a scalar.
func (n *Node) Size() int {
	size := 1
	for _, d := range n.Shape {
		size *= d
	}
	return size
}

// Float reports whether n and its children, but for those in except, are of one dtype of floating point.
func (n *Node) Float(except ...int) bool {
	if !isFloat(n.Dtype) {
		return false
	}
next:
	for i, c := range n.In {
		for _, e := range except {
			if i == e {
				continue next
			}
		}
		if c.Dtype != n.Dtype {
			return false
		}
	}
	return true
}

// Graph is a graph whose nodes are in an order in which they can be computed.
type Graph struct {
	Nodes []*Node
	Count int // of nodes in Gorgonia's graph, to see whether it has grown
	index map[*G.Node]*Node
}

// Of returns the node that stands for n, or nil if n is not in the graph.
func (g *Graph) Of(n *G.Node) *Node { return g.index[n] }

// Read reads a graph.
func Read(src *G.ExprGraph) (*Graph, error) {
	all := src.AllNodes()
	g := &Graph{Count: len(all), index: make(map[*G.Node]*Node, len(all))}
	byAddress := make(map[uintptr]*G.Node, len(all))
	for _, n := range all {
		byAddress[reflect.ValueOf(n).Pointer()] = n
	}
	for _, n := range all {
		if err := g.visit(n, byAddress); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// visit adds n after its children. It keeps its own stack, since a recurrent network unrolled over time is
// deeper than is good for recursion.
func (g *Graph) visit(root *G.Node, byAddress map[uintptr]*G.Node) error {
	type frame struct {
		n    *G.Node
		kids []uintptr
		next int
	}
	if g.index[root] != nil {
		return nil
	}
	open := map[*G.Node]bool{root: true}
	stack := []frame{{n: root}}
	var err error
	if stack[0].kids, err = children(root); err != nil {
		return err
	}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.next == len(top.kids) {
			if err := g.add(top.n, top.kids, byAddress); err != nil {
				return err
			}
			delete(open, top.n)
			stack = stack[:len(stack)-1]
			continue
		}
		kid := byAddress[top.kids[top.next]]
		top.next++
		switch {
		case kid == nil:
			return fmt.Errorf("node %d %q uses a node that was removed from the graph: %w", top.n.ID(), top.n.Name(), ErrInvalid)
		case open[kid]:
			return fmt.Errorf("node %d %q depends on itself: %w", kid.ID(), kid.Name(), ErrInvalid)
		case g.index[kid] != nil:
			continue
		}
		kids, err := children(kid)
		if err != nil {
			return err
		}
		open[kid] = true
		stack = append(stack, frame{n: kid, kids: kids})
	}
	return nil
}

// add appends a node whose children are there.
func (g *Graph) add(src *G.Node, kids []uintptr, byAddress map[uintptr]*G.Node) error {
	op, err := decode(src)
	if err != nil {
		return fmt.Errorf("node %d: %w", src.ID(), err)
	}
	n := &Node{Src: src, Op: op, Index: len(g.Nodes)}
	for _, kid := range kids {
		n.In = append(n.In, g.index[byAddress[kid]])
	}
	switch op.(type) {
	case ReadOp:
		if len(n.In) != 1 {
			return fmt.Errorf("node %d, Read, has %d children, want 1: %w", src.ID(), len(n.In), ErrInvalid)
		}
		n.Dtype, n.Shape = n.In[0].Dtype, n.In[0].Shape
	case Assign:
	default:
		if src.Type() == nil {
			return fmt.Errorf("node %d %q has no type: %w", src.ID(), src.Name(), ErrInvalid)
		}
		if n.Dtype, err = dtypeOf(src); err != nil {
			return err
		}
		n.Shape = src.Shape()
		if src.Shape() == nil && src.Dims() > 0 {
			return fmt.Errorf("node %d %q has no shape: %w", src.ID(), src.Name(), ErrInvalid)
		}
	}
	name, err := group(src)
	if err != nil {
		return err
	}
	n.Derived = name == "gradients" || name == "undifferentiated nodes"
	g.Nodes = append(g.Nodes, n)
	g.index[src] = n
	return nil
}

// dtypeOf is Node.Dtype with an error in place of a panic.
func dtypeOf(n *G.Node) (dt tensor.Dtype, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("node %d %q: %v: %w", n.ID(), n.Name(), p, ErrInvalid)
		}
	}()
	return n.Dtype(), nil
}
