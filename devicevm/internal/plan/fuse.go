package plan

// This file makes one step of a chain, or tree, of operations on single elements.
//
// An operation is part of the step of the one that uses its result, if nothing else does. What only repeats
// elements, as broadcasting a bias does, is not computed at all, but looked at.

import (
	"bytes"

	"github.com/pintensor/pin/devicevm/internal/graph"
)

// What a step has at most: devices give their kernels room for so much.
const (
	longest  = 24 // instructions
	broadest = 12 // operands
)

// expr is a step in the making.
type expr struct {
	operands []*graph.Node // sources, whose memory is read
	code     *Elementwise
}

// tree makes an expr.
type tree struct {
	*builder
	size  int
	begun int // instructions, with those whose operands are not complete
	open  int // operands of those that have no register yet
	expr  expr
	exprs []pending
}

// pending is an instruction whose registers are not numbered yet: operands come first.
type pending struct {
	Instr
	refs [2]ref
}

// ref is a register: an operand's or an instruction's.
type ref struct {
	instr bool
	k     int
}

// express returns the step of n.
func (b *builder) express(n *graph.Node) *expr {
	t := tree{builder: b, size: n.Size(), open: 1}
	t.add(n)
	args := len(t.expr.operands)
	number := func(r ref) int {
		if r.instr {
			return args + r.k
		}
		return r.k
	}
	code := &Elementwise{Args: t.expr.code.Args}
	for _, p := range t.exprs {
		p.A = number(p.refs[0])
		if p.Binary {
			p.B = number(p.refs[1])
		}
		code.Code = append(code.Code, p.Instr)
	}
	t.expr.code = code
	return &t.expr
}

// add appends the instructions of n, and returns the register of its value.
func (t *tree) add(n *graph.Node) ref {
	if t.expr.code == nil {
		t.expr.code = &Elementwise{}
	}
	var p pending
	t.begun++
	t.open += len(n.In) - 1
	for i, c := range n.In {
		p.refs[i] = t.operand(t.source(c))
	}
	switch op := n.Op.(type) {
	case graph.Binary:
		p.Binary, p.Kind2 = true, op.Kind
	case graph.Unary:
		p.Kind1 = op.Kind
	}
	t.exprs = append(t.exprs, p)
	return ref{true, len(t.exprs) - 1}
}

// joins reports whether n is computed in the steps of those that use it.
func (b *builder) joins(n *graph.Node) bool {
	if b.NoFuse || b.consts[n] != nil || b.kept[n] || !b.elementwise(n) {
		return false
	}
	return b.uses[n] == 1 || b.again(n)
}

// again reports whether computing n again costs less than keeping it: comparing what is in memory anyway with a
// constant. The mask of a rectifier is such, which both its result and its gradient use.
func (b *builder) again(n *graph.Node) bool {
	op, ok := n.Op.(graph.Binary)
	if !ok || op.Kind < graph.Lt {
		return false
	}
	x, c := b.source(n.In[0]), b.source(n.In[1])
	return b.consts[c] != nil && c.Size() == 1 && x.Size() == n.Size() && b.consts[x] == nil && !b.joins(x)
}

// operand returns the register of a node's value: of an instruction if it can be computed here.
func (t *tree) operand(n *graph.Node) ref {
	if n.Size() == t.size && t.begun < longest && len(t.expr.operands)+t.open+len(n.In)-1 <= broadest && t.joins(n) {
		return t.add(n)
	}
	t.open--
	n, arg := t.look(n)
	for i, other := range t.expr.operands {
		if other == n && t.expr.code.Args[i] == arg {
			return ref{false, i}
		}
	}
	t.expr.operands = append(t.expr.operands, n)
	t.expr.code.Args = append(t.expr.code.Args, arg)
	return ref{false, len(t.expr.operands) - 1}
}

// look returns the node whose elements are read for those of n, and which of them.
func (t *tree) look(n *graph.Node) (*graph.Node, Arg) {
	arg := Arg{Kind: Full}
	for {
		c := t.consts[n]
		repeat, ok := n.Op.(graph.Repeat)
		switch {
		case c != nil && c.uniform || n.Size() == 1 && t.size > 1:
			return n, Arg{Kind: Scalar, Zero: c != nil && len(bytes.Trim(c.data, "\x00")) == 0}
		case !ok || c != nil || t.NoFuse || t.kept[n] || !n.Float(1) || !repeats(repeat, n):
			return n, arg
		}
		next := RepetitionOf(repeat, n.In[0].Size(), n.Shape)
		if arg.Kind == Repeated {
			if next, ok = arg.through(next, t.size, n.Size()); !ok {
				return n, arg
			}
		}
		n, arg = t.source(n.In[0]), next
	}
}
