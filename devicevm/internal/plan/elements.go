package plan

// This file has the steps that compute element by element.

import (
	"github.com/pintensor/pin/devicevm/internal/graph"
	"gorgonia.org/tensor"
)

// Elementwise computes every element of its result from the elements at the same place of its operands, one
// after the other instruction. Operand i is register i, and the result of instruction j is register
// len(Args)+j. The last is Step.Out, and More are the registers of Step.More.
type Elementwise struct {
	Args []Arg // one for each of Step.In
	Code []Instr
	More []int
}

// Product is a product of the matrices Step.In[0] and In[1], whose elements then go through code that has the product's
// as register 0, and Step.In[i+1] as register i. The product has the Shape, and as many elements as Step.Out.
type Product struct {
	MatMul graph.MatMul
	Images ImageMatMul // if it has images, it takes MatMul's place
	Shape  tensor.Shape
	Then   *Elementwise
}

// Followed is another operation, of the first Operands of Step.In, whose elements then go through code as a Product's do:
// MaxPoolDiff. The operation's result has the Shape.
type Followed struct {
	Op       any
	Operands int
	Shape    tensor.Shape
	Then     *Elementwise
}

// First returns the step of the operation alone.
func (f Followed) First(s *Step) Step {
	first := *s
	first.Op, first.In, first.More = f.Op, s.In[:f.Operands], nil
	first.Out.Shape = f.Shape
	return first
}

// Arg says which element of an operand belongs to element i of the result.
type Arg struct {
	Kind ArgKind

	// Of Repeated: with k = i / Step, element (k / Inner / Rep)*Inner + k%Inner. If Inner is 1, so is Rep.
	Step, Rep, Inner int

	// Zero: it is the constant 0.
	Zero bool
}

// RepetitionOf returns what a repetition of n elements to a shape reads.
func RepetitionOf(op graph.Repeat, n int, shape tensor.Shape) Arg {
	inner := 1
	for _, d := range shape[op.Along+1:] {
		inner *= d
	}
	rep := shape.TotalSize() / n
	if inner == 1 || n == 1 {
		return Arg{Kind: Repeated, Step: rep, Rep: 1, Inner: 1}
	}
	return Arg{Kind: Repeated, Step: 1, Rep: rep, Inner: inner}
}

// At returns which element belongs to element i of the result.
func (a Arg) At(i int) int {
	switch a.Kind {
	case Scalar:
		return 0
	case Repeated:
		k := i / a.Step
		return k/a.Inner/a.Rep*a.Inner + k%a.Inner
	}
	return i
}

// through returns the operand that has the element of then which belongs to a's, if there is one, of results of n elements
// that are made of size elements by a.
func (a Arg) through(then Arg, n, size int) (Arg, bool) {
	switch {
	case a.Rep == 1: // then.At(i / a.Step)
		return Arg{Kind: Repeated, Step: a.Step * then.Step, Rep: then.Rep, Inner: then.Inner}, true
	case then.Rep == 1 && a.Inner%then.Step == 0:
		if a.Inner == then.Step {
			return Arg{Kind: Repeated, Step: a.Step * a.Inner * a.Rep, Rep: 1, Inner: 1}, true
		}
		return Arg{Kind: Repeated, Step: a.Step * then.Step, Rep: a.Rep, Inner: a.Inner / then.Step}, true
	case then.Step == 1 && a.Inner%then.Inner == 0 && then.Rep*then.Inner >= size: // then.At is the rest by its Inner
		return Arg{Kind: Repeated, Step: a.Step, Rep: n / a.Step / then.Inner, Inner: then.Inner}, true
	}
	return Arg{}, false
}

// ArgKind is how an operand is looked at.
type ArgKind uint8

const (
	Full        ArgKind = iota // i
	Scalar                     // 0
	Repeated                   // as numpy.repeat does
	Accumulated                // what the step has computed for i
)

// Instr is one operation on elements.
type Instr struct {
	Binary bool
	Kind2  graph.BinaryKind // if Binary
	Kind1  graph.UnaryKind  // if not
	A, B   int              // registers
}
