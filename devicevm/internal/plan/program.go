// Package plan turns a graph into a program: a list of steps over numbered places in memory, which any device
// can run in order, as it is, again and again.
//
// What nobody asks for is dropped, what never changes is computed once, operations that only look at elements
// differently cost nothing, sums of sums are one, chains of operations on single elements become one step, with as many
// results as are needed, or part of the product that they follow, and intermediate results are in one arena, which those
// of large programs share by lifetime. So a device backend has to know only what each kind of [Step] computes.
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
