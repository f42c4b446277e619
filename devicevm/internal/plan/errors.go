package plan

import (
	"errors"

	"github.com/pintensor/pin/devicevm/internal/graph"
)

// What Run.NaN and Run.Inf look for.
var (
	ErrNaN = errors.New("NaN")
	ErrInf = errors.New("Inf")
)

// StepError says which node's step failed.
type StepError struct {
	Node *graph.Node
	Err  error
}

// Error returns the node and the error.
func (e *StepError) Error() string { return e.Node.String() + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *StepError) Unwrap() error { return e.Err }
