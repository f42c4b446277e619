package plan

// This file joins steps that are launched one after the other for no other reason than that the first one's value is
// wanted by itself too: what follows it element by element is computed with it, as a further result of the step. A layer's
// sum, which its gradient needs, and the rectifier of it are one step. So is a product of matrices with what its elements
// go through, or the gradient of a pooling.

import (
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
)

// most is how many results a step has at most.
const most = 4

// id names a value before it has a place in the arena.
type id struct {
	space Space
	index int
	off   int64
}

func (v Value) id() id { return id{v.Space, v.Index, v.Off} }

// merger joins the steps of a program.
type merger struct {
	*builder
	lasting map[id]bool // roots
	makers  map[id]int  // the step that each value is the result of
	readers map[id]int  // how many steps read each value
}

// merge joins the steps that can be.
func (b *builder) merge() {
	if b.NoFuse {
		return
	}
	m := &merger{builder: b, lasting: map[id]bool{}}
	for _, n := range b.Roots {
		m.lasting[b.places[n].id()] = true
	}
	m.index()
	for j := 0; j < len(m.prog.Steps); j++ {
		for at := m.mergeInto(j); at >= 0; at = m.mergeInto(j) {
			j = at // it may be joined with one before it
		}
	}
}

// index finds out who makes and who reads values.
func (m *merger) index() {
	m.makers, m.readers = map[id]int{}, map[id]int{}
	for i := range m.prog.Steps {
		s := &m.prog.Steps[i]
		for _, v := range s.results() {
			m.makers[v.id()] = i
		}
		for k, v := range s.In {
			if !reads(s.In[:k], v) {
				m.readers[v.id()]++
			}
		}
	}
}

func reads(in []Value, v Value) bool {
	return slices.ContainsFunc(in, func(o Value) bool { return o.id() == v.id() })
}

// mergeInto joins the step j with one that it reads a result of, and returns where the step that does both is, or -1.
func (m *merger) mergeInto(j int) int {
	step := &m.prog.Steps[j]
	code, ok := step.Op.(*Elementwise)
	if !ok {
		return -1
	}
	for k, arg := range code.Args {
		i, made := m.makers[step.In[k].id()]
		if !made || arg.Kind != Full {
			continue
		}
		if s, ok := m.join(i, j); ok {
			at := m.replace(i, j, s)
			m.index()
			return at
		}
	}
	return -1
}

// join returns the step that does what the steps i and j do, j being elementwise and reading a result of i, if there can
// be one.
func (m *merger) join(i, j int) (Step, bool) {
	first, second := &m.prog.Steps[i], &m.prog.Steps[j]
	if first.Out.N != second.Out.N || first.Out.Dtype != second.Out.Dtype || !m.adjacent(i, j) {
		return Step{}, false
	}
	fresh := &Elementwise{Args: []Arg{{Kind: Accumulated}}}
	switch op := first.Op.(type) {
	case *Elementwise:
		return m.sequence(first, second, op, 0, nil)
	case Product:
		return m.sequence(first, second, op.Then, 2, func(then *Elementwise) any { op.Then = then; return op })
	case graph.MatMul:
		return m.sequence(first, second, fresh, 2, func(then *Elementwise) any { return Product{MatMul: op, Shape: first.Out.Shape, Then: then} })
	case ImageMatMul:
		return m.sequence(first, second, fresh, 2, func(then *Elementwise) any { return Product{Images: op, Shape: first.Out.Shape, Then: then} })
	case Followed:
		return m.sequence(first, second, op.Then, op.Operands, func(then *Elementwise) any { op.Then = then; return op })
	case graph.MaxPoolDiff:
		n := len(first.In)
		return m.sequence(first, second, fresh, n, func(then *Elementwise) any { return Followed{Op: op, Operands: n, Shape: first.Out.Shape, Then: then} })
	}
	return Step{}, false
}

// adjacent reports whether the steps can be computed one right after the other: nothing between them needs the first, or
// the second needs nothing from between.
func (m *merger) adjacent(i, j int) bool {
	if !m.late(m.prog.Steps[j].In, i) {
		return true
	}
	for _, v := range m.prog.Steps[i].results() {
		for k := i + 1; k < j; k++ {
			if reads(m.prog.Steps[k].In, v) {
				return false
			}
		}
	}
	return true
}

// late reports whether some of the values are made after the step i.
func (m *merger) late(in []Value, i int) bool {
	return slices.ContainsFunc(in, func(v Value) bool {
		k, made := m.makers[v.id()]
		return made && k > i
	})
}

// sequence returns the step that runs the code of both. If the first's comes after an operation with operands of its own,
// behind makes the operation that both come after.
func (m *merger) sequence(first, second *Step, code *Elementwise, own int, behind func(*Elementwise) any) (Step, bool) {
	then := second.Op.(*Elementwise)
	s := *first
	s.Node, s.Out, s.More, s.In = second.Node, second.Out, nil, slices.Clone(first.In)
	if behind != nil {
		s.In = append([]Value{first.Out}, first.In[own:]...) // by register, as Args are
	}
	joined := &Elementwise{Args: slices.Clone(code.Args)}

	// Registers of the second's operands: the first's results, as numbered there, operands of both, or new ones.
	registers := make([]int, len(then.Args))
	for k, arg := range then.Args {
		v := second.In[k]
		r := first.register(v)
		if r >= 0 && arg.Kind != Full {
			return s, false // it needs other elements of what the first computes
		}
		for i := 0; r < 0 && i < len(s.In); i++ {
			if s.In[i].id() == v.id() && joined.Args[i] == arg {
				r = i
			}
		}
		if r < 0 {
			r = -1 - len(s.In) // new
			s.In, joined.Args = append(s.In, v), append(joined.Args, arg)
		}
		registers[k] = r
	}
	args := len(joined.Args)
	shifted := func(r int) int { // a register of the first
		switch {
		case r < 0:
			return -1 - r
		case r < len(code.Args):
			return r
		}
		return r + args - len(code.Args)
	}
	for _, in := range code.Code {
		joined.Code = append(joined.Code, in.moved(shifted))
	}
	begin := args + len(joined.Code)
	moved := func(r int) int { // a register of the second
		if r < len(then.Args) {
			return shifted(registers[r])
		}
		return begin + r - len(then.Args)
	}
	for _, in := range then.Code {
		joined.Code = append(joined.Code, in.moved(moved))
	}
	for _, part := range first.parts() {
		others := m.readers[part.Value.id()]
		if reads(second.In, part.Value) {
			others--
		}
		if others > 0 || m.lasting[part.Value.id()] {
			s.More, joined.More = append(s.More, part), append(joined.More, shifted(first.register(part.Value)))
		}
	}
	for k, part := range second.More {
		s.More, joined.More = append(s.More, part), append(joined.More, moved(then.More[k]))
	}
	if args > broadest || len(joined.Code) > longest || len(s.More) >= most {
		return s, false
	}
	s.Op = joined
	if behind != nil {
		s.Op = behind(joined)
		s.In = append(slices.Clone(first.In[:own]), s.In[1:]...)
	}
	return s, true
}

// replace puts s in the place of the steps i and j, that of i unless it needs what is made later, and returns where it is.
func (m *merger) replace(i, j int, s Step) int {
	at := i
	if m.late(s.In, i) {
		at = j - 1 // the first one is gone then
	}
	steps := slices.Delete(m.prog.Steps, j, j+1)
	steps = slices.Delete(steps, i, i+1)
	m.prog.Steps = slices.Insert(steps, at, s)
	return at
}

// parts returns all results of the step.
func (s *Step) parts() []Part { return append(slices.Clone(s.More), Part{s.Node, s.Out}) }

// results returns the values of those.
func (s *Step) results() []Value {
	var all []Value
	for _, part := range s.parts() {
		all = append(all, part.Value)
	}
	return all
}

// register returns the register of a result of a step, or -1. What elements come from is register 0.
func (s *Step) register(v Value) int {
	var code *Elementwise
	switch op := s.Op.(type) {
	case *Elementwise:
		code = op
	case Product:
		code = op.Then
	case Followed:
		code = op.Then
	}
	if s.Out.id() == v.id() {
		if code == nil {
			return 0
		}
		return len(code.Args) + len(code.Code) - 1
	}
	for k, part := range s.More {
		if part.Value.id() == v.id() {
			return code.More[k]
		}
	}
	return -1
}

// moved returns the instruction with other registers.
func (in Instr) moved(to func(r int) int) Instr {
	in.A = to(in.A)
	if in.Binary {
		in.B = to(in.B)
	}
	return in
}
