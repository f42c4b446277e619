package plan

// This file has the builder: from a graph to steps, before memory is given out.

import (
	"fmt"
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Options say what a program is for.
type Options struct {
	Roots []*graph.Node // what is kept until the next run

	Eval   bool // not training: no dropout, and batch normalisation by the running statistics
	NoFuse bool // every node has a step of its own
	Share  bool // values share memory where that saves little too
	Bugs   bool // operations in which Gorgonia is wrong compute themselves

	// Apart is how many bytes may be spent on values that share no memory, so that a device that can runs more at once.
	Apart int64
}

// builder makes a program.
type builder struct {
	Options
	graph  *graph.Graph
	norms  map[*G.BatchNormOp]*graph.Node
	live   []*graph.Node // in order
	kept   map[*graph.Node]bool
	uses   map[*graph.Node]int
	consts map[*graph.Node]*folded
	want   map[*graph.Node]bool // that have memory of their own
	exprs  map[*graph.Node]*expr
	totals map[*graph.Node]total
	layers map[*graph.Node]int
	places map[*graph.Node]Value
	aux    map[*graph.Node]Value
	prog   *Program
}

// Build makes the program that computes the roots.
func Build(g *graph.Graph, opts Options) (*Program, error) {
	b := &builder{
		Options: opts, graph: g, norms: map[*G.BatchNormOp]*graph.Node{}, kept: map[*graph.Node]bool{},
		uses: map[*graph.Node]int{}, consts: map[*graph.Node]*folded{}, want: map[*graph.Node]bool{},
		exprs: map[*graph.Node]*expr{}, totals: map[*graph.Node]total{}, layers: map[*graph.Node]int{}, places: map[*graph.Node]Value{},
		aux:  map[*graph.Node]Value{},
		prog: &Program{Where: map[*graph.Node]Value{}},
	}
	for _, n := range g.Nodes {
		if op, ok := n.Op.(graph.BatchNorm); ok {
			b.norms[op.Op] = n
		}
	}
	b.order(opts.Roots)
	for _, n := range b.live {
		if err := b.fold(n); err != nil {
			return nil, err
		}
	}
	b.count()
	b.choose()
	if err := b.emit(); err != nil {
		return nil, err
	}
	b.images()
	b.merge()
	b.allocate()
	for _, n := range opts.Roots {
		b.prog.Where[n] = b.places[n]
	}
	for _, n := range b.prog.Inputs {
		b.prog.Where[n] = b.places[n]
	}
	return b.prog, nil
}

// count finds out how often each value is used by something that computes, and which are kept.
func (b *builder) count() {
	for _, n := range b.live {
		if b.consts[n] != nil || b.alias(n) != nil {
			continue
		}
		for _, c := range b.needs(n) {
			b.uses[b.source(c)]++
		}
	}
	for _, n := range b.Roots {
		b.kept[b.source(n)] = true
	}
}

// alias returns the child whose memory is n's too, or nil.
func (b *builder) alias(n *graph.Node) *graph.Node {
	if b.consts[n] != nil {
		return nil
	}
	of := func(c *graph.Node) *graph.Node {
		if c.Size() == n.Size() && c.Dtype == n.Dtype {
			return c
		}
		return nil
	}
	switch op := n.Op.(type) {
	case graph.Reshape, graph.Identity, graph.ReadOp:
		return of(n.In[0])
	case graph.Repeat:
		return of(n.In[0])
	case graph.Slice:
		if op.Step == 1 {
			return of(n.In[0])
		}
	case graph.SliceIncr:
		if op.Step == 1 {
			return of(n.In[1])
		}
	case graph.Concat:
		if len(n.In) == 1 {
			return of(n.In[0])
		}
	case graph.Dropout:
		if !b.Bugs && (b.Eval || op.P == 0) {
			return of(n.In[0])
		}
	case graph.DropoutDiff:
		if !b.Bugs && (b.Eval || op.P == 0) {
			return of(n.In[2])
		}
	}
	return nil
}

// source returns the node whose memory n's value is in.
func (b *builder) source(n *graph.Node) *graph.Node {
	for {
		c := b.alias(n)
		if c == nil {
			return n
		}
		n = c
	}
}

// choose decides which nodes have memory and steps of their own, from the roots down.
func (b *builder) choose() {
	for _, n := range b.Roots {
		b.want[b.source(n)] = true
	}
	for _, n := range slices.Backward(b.live) {
		if !b.want[n] || b.consts[n] != nil {
			continue
		}
		if b.elementwise(n) {
			e := b.express(n)
			b.exprs[n] = e
			for _, c := range e.operands {
				b.want[c] = true
			}
			continue
		}
		if t, ok := b.addUp(n); ok {
			b.totals[n] = t
			b.want[b.source(t.of)] = true
			continue
		}
		for _, c := range b.needs(n) {
			b.want[b.source(c)] = true
		}
	}
}

// emit makes the steps. Values in the arena have a number for an offset until allocate gives them one.
func (b *builder) emit() error {
	for _, n := range b.live {
		if b.want[n] {
			if err := b.emitNode(n); err != nil {
				return err
			}
		} else if src := b.source(n); src != n && b.want[src] {
			b.places[n] = b.places[src].as(n)
		}
	}
	return nil
}

func (b *builder) emitNode(n *graph.Node) error {
	if c := b.consts[n]; c != nil {
		b.places[n] = b.constant(n, c.data)
		return nil
	}
	if _, ok := n.Op.(graph.Input); ok {
		b.places[n] = Value{Space: Input, Index: len(b.prog.Inputs), Dtype: n.Dtype, Shape: n.Shape, N: n.Size()}
		b.prog.Inputs = append(b.prog.Inputs, n)
		return nil
	}
	s := Step{Node: n, Op: n.Op, Eval: b.Eval, Out: b.temporary(n.Dtype, n.Shape, n.Size())}
	if e := b.exprs[n]; e != nil {
		s.Op = e.code
		for _, c := range e.operands {
			s.In = append(s.In, b.places[c])
		}
	} else if t, ok := b.totals[n]; ok {
		s.Op, s.In = graph.Sum{Along: t.along}, []Value{b.places[b.source(t.of)].as(t.of)}
	} else {
		for _, c := range n.In {
			v, ok := b.places[b.source(c)]
			if !ok { // only its shape is used
				v = Value{Dtype: c.Dtype}
			}
			s.In = append(s.In, v.as(c))
		}
		if err := b.complete(n, &s); err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
	}
	b.places[n] = s.Out
	b.prog.Steps = append(b.prog.Steps, s)
	return nil
}

// complete gives a step what belongs to it beside operands and result, or makes it the host's.
func (b *builder) complete(n *graph.Node, s *Step) error {
	if !b.native(n) {
		s.Op = Host{n.Src.Op()}
		if _, ok := n.Op.(graph.Repeat); ok {
			return fmt.Errorf("repeating elements of %v is not supported", n.Dtype)
		}
		return nil
	}
	switch op := n.Op.(type) {
	case graph.MaxPool:
		s.Aux = b.temporary(tensor.Int32, n.Shape, n.Size())
		b.aux[n] = s.Aux
	case graph.MaxPoolDiff:
		pool := b.source(n.In[1])
		aux, ok := b.aux[pool]
		if !ok {
			return fmt.Errorf("the gradient of a pooling whose result is not that of a pooling, but of %v", pool)
		}
		s.Aux = aux
	case graph.BatchNorm:
		channels := n.Shape[1]
		s.Aux = b.temporary(n.Dtype, tensor.Shape{2, channels}, 2*channels)
		b.aux[n] = s.Aux
		s.State = b.prog.AddState(StateInfo{Norm: &op, Dtype: n.Dtype}, 2*channels)
	case graph.BatchNormDiff:
		aux, ok := b.aux[b.norms[op.Op]]
		if !ok {
			return fmt.Errorf("the gradient of a batch normalisation that is not in the graph")
		}
		s.Aux = aux
	case graph.Dropout:
		s.Layer = b.layer(n)
	case graph.DropoutDiff:
		drop := b.source(n.In[1])
		if _, ok := drop.Op.(graph.Dropout); !ok {
			return fmt.Errorf("the gradient of a dropout whose result is not that of a dropout, but of %v", drop)
		}
		s.Layer = b.layer(drop)
	}
	return nil
}

// layer numbers the dropouts.
func (b *builder) layer(n *graph.Node) int {
	k, ok := b.layers[n]
	if !ok {
		k = b.prog.Layers
		b.layers[n] = k
		b.prog.Layers++
	}
	return k
}

// temporary returns a value in the arena that has no place there yet.
func (b *builder) temporary(dt tensor.Dtype, shape tensor.Shape, n int) Value {
	b.prog.ArenaSize--
	return Value{Space: Arena, Off: b.prog.ArenaSize, Dtype: dt, Shape: shape, N: n}
}

func (b *builder) constant(n *graph.Node, data []byte) Value {
	b.prog.Consts = append(b.prog.Consts, data)
	return Value{Space: Const, Index: len(b.prog.Consts) - 1, Dtype: n.Dtype, Shape: n.Shape, N: n.Size()}
}
