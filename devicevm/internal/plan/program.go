// Package plan turns a graph into a program: a list of steps over numbered places in memory, which any device
// can run in order, as it is, again and again.
//
// What nobody asks for is dropped, what never changes is computed once, operations that only look at elements
// differently cost nothing, sums of sums are one, chains of operations on single elements become one step, with as many results
// as are needed, or part of the product that they follow, and intermediate results are in one arena, which those of
// large programs share by lifetime. So a device backend has to know only what each kind of [Step] computes.
//
// # Ownership
//
// A [Program] says where values lie, and has no memory but that of constants. It refers to the graph it was built of.
//
// # Concurrency
//
// Build and Roots keep no state. A Program that nobody changes may be read from any goroutine.
//
// # Errors
//
// Errors of Build name the node. Backends return a [StepError].
//
// # Platforms
//
// All that Go runs on.
package plan

import (
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Space is a kind of memory.
type Space uint8

const (
	Arena Space = iota // intermediate results, by offset
	Input              // what the caller gives: batches and weights, each by itself
	Const              // written once
	State              // kept from run to run: running statistics, a solver's moments
)

// Value is where a tensor lies, contiguous and row-major.
type Value struct {
	Space Space
	Index int   // of the input, constant or state
	Off   int64 // in that, in bytes
	Dtype tensor.Dtype
	Shape tensor.Shape
	N     int // elements; none if 0
}

// Bytes returns the size of v.
func (v Value) Bytes() int64 {
	if v.N == 0 {
		return 0
	}
	return int64(v.N) * int64(v.Dtype.Size())
}

// as returns v with the shape of n, which has as many elements.
func (v Value) as(n *graph.Node) Value {
	v.Shape = n.Shape
	return v
}

// Step computes one value, or several of the same size.
type Step struct {
	Node *graph.Node // whose value it is
	Op   any         // an operation of package graph, *Elementwise, Host or Update
	In   []Value
	Out  Value
	More []Part // further results

	// Aux is what the step leaves for the gradient's: MaxPool the int32 place in its image of each maximum, -1
	// for none; BatchNorm the mean and 1/sqrt(variance + epsilon) of each channel. The gradient's step has it as Aux
	// too. Solvers have their moments here, both if they have two.
	Aux Value

	// State is BatchNorm's running mean and variance.
	State Value

	// Layer numbers the dropouts; a gradient has its layer's.
	Layer int

	// Eval: not training.
	Eval bool
}

// Reads returns the values that the step reads, some of which may have no elements.
func (s *Step) Reads() []Value { return append(slices.Clone(s.In), s.Aux, s.State) }

// Writes returns the values that the step writes, some of which may have no elements.
func (s *Step) Writes() []Value {
	op := s.Op
	if f, ok := op.(Followed); ok {
		op = f.Op
	}
	switch op.(type) {
	case graph.MaxPoolDiff, graph.BatchNormDiff: // Aux is of the step whose gradient it is
		return s.results()
	}
	return append(s.results(), s.Aux, s.State)
}

// Part is a further result of a step: the value of a node.
type Part struct {
	Node  *graph.Node
	Value Value
}

// Host is an operation that only computes itself, on host values.
type Host struct{ Op G.Op }

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

// Update changes a weight, Step.Out, by its gradient, Step.In[0], as a solver says.
type Update struct{ Kind graph.SolverKind }

// Run is what one run of a program depends on beside memory.
type Run struct {
	Seed     uint64         // of dropout
	Count    uint64         // how many runs came before
	Settings graph.Settings // of the solver
	Iter     int            // the solver's steps, this one included
	Bugs     bool           // the solver is as wrong as Gorgonia's

	// NaN and Inf say to look for such a number in the result of each step. One ends the run.
	NaN, Inf bool
}

// Program is what a device runs.
type Program struct {
	Steps     []Step
	ArenaSize int64
	Inputs    []*graph.Node
	Consts    [][]byte
	States    []StateInfo
	Layers    int // dropouts

	// Where has the roots and the inputs.
	Where map[*graph.Node]Value
}

// StateInfo describes a state.
type StateInfo struct {
	Bytes int64
	Norm  *graph.BatchNorm // whose running statistics it is; nil if it is a solver's
	Dtype tensor.Dtype
}

// AddState adds a state of n elements.
func (p *Program) AddState(info StateInfo, n int) Value {
	info.Bytes = int64(n) * int64(info.Dtype.Size())
	p.States = append(p.States, info)
	return Value{Space: State, Index: len(p.States) - 1, Dtype: info.Dtype, N: n, Shape: tensor.Shape{n}}
}

// Fallbacks returns the nodes that only the host can compute.
func (p *Program) Fallbacks() []*graph.Node {
	var list []*graph.Node
	for _, s := range p.Steps {
		if _, ok := s.Op.(Host); ok {
			list = append(list, s.Node)
		}
	}
	return list
}
