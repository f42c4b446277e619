package devicevm

// This file has the errors.

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	G "gorgonia.org/gorgonia"
)

var (
	// ErrClosed: the VM was closed.
	ErrClosed = errors.New("closed")

	// ErrUnsupported: the device, or something the graph asks of it, is not supported.
	ErrUnsupported = errors.New("not supported")

	// ErrIncompatible: the program was built with a Gorgonia whose internals are not those that this package
	// knows. Nothing is guessed then.
	ErrIncompatible = graph.ErrIncompatible

	// ErrInvalidGraph: the graph can't be computed: a node without a type, or one that uses a node which was
	// removed from the graph.
	ErrInvalidGraph = graph.ErrInvalid

	// ErrGraphChanged: the graph has other nodes than it had in New. Make a new VM.
	ErrGraphChanged = errors.New("the graph was changed after New")

	// ErrNoValue: a node that needs a value has none.
	ErrNoValue = errors.New("no value")

	// ErrMismatch: a value has another shape or dtype than its node.
	ErrMismatch = errors.New("wrong shape or dtype")

	// ErrNotKept: the value of a node is not there after a run. Name the node in WithValues.
	ErrNotKept = errors.New("value not kept")

	// ErrNaN and ErrInf are what WithNaNWatch and WithInfWatch found.
	ErrNaN = plan.ErrNaN
	ErrInf = plan.ErrInf
)

// NodeError is an error of one node, for errors.As.
type NodeError struct {
	Node *G.Node
	Err  error
	text string // which node
}

// Error returns the node, as "node 7 "A × B" float32(64, 10)", and the error.
func (e *NodeError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%s: %v", cmp.Or(e.text, "a node"), e.Err) // without a text it is not of this package
}

// Unwrap returns Err.
func (e *NodeError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

func nodeError(n *graph.Node, format string, args ...any) error {
	return &NodeError{Node: n.Src, Err: fmt.Errorf(format, args...), text: n.String()}
}

// failed names the call that failed. Errors of steps become this package's.
func failed(call string, err error) error {
	if err == nil {
		return nil
	}
	var step *plan.StepError
	if errors.As(err, &step) {
		err = &NodeError{Node: step.Node.Src, Err: step.Err, text: step.Node.String()}
	}
	return fmt.Errorf("devicevm: %s: %w", call, err)
}
