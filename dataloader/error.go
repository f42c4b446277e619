package dataloader

// Errors of the package.

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrClosed is what a closed Loader says.
	ErrClosed = errors.New("dataloader: loader is closed")

	// ErrRunning is what a second loop over a Loader gets, and Restore, while a loop runs.
	ErrRunning = errors.New("dataloader: a loop over this loader is running")

	// ErrReleased is what releasing a Batch again gives, or one whose turn of the loop is over.
	ErrReleased = errors.New("already released")

	// ErrTimeout is the cause of an error about a Read that took longer than Config.Timeout.
	ErrTimeout = errors.New("timeout")

	// ErrSkipped is the error of a loop in which more samples failed than Config.MaxSkipped allows.
	ErrSkipped = errors.New("too many samples failed")

	// ErrState is what Restore says of a State that another data set or configuration gave.
	ErrState = errors.New("the State does not fit")
)

// FatalError is how a Read or ReadBatch says that it failed of something that is no fault of the sample's, and that would
// fail others too: a decoder that was closed, no memory. It is in the place of the batch whatever [Config.OnError] says: with
// SkipErrors a whole epoch could be skipped for it. It may be wrapped in other errors.
type FatalError struct{ Err error }

// Error says what Err says.
func (e *FatalError) Error() string {
	if e.Err == nil {
		return "a FatalError without an Err"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *FatalError) Unwrap() error { return e.Err }

// blameless reports whether err is no fault of the sample's, which is not left out for it then.
func blameless(err error) bool {
	var f *FatalError
	return errors.As(err, &f) || errors.Is(err, errUnwritten)
}

// SampleError is an error in the place of a batch, or about a sample that was left out of one.
type SampleError struct {
	Epoch, Batch int
	Index        int // the sample in the data set; -1 if the error is about the whole batch
	Err          error
}

// Error names the epoch, the batch and the sample, and says what Err says.
func (e *SampleError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("dataloader: epoch %d, batch %d: %v", e.Epoch, e.Batch, e.Err)
	}
	return fmt.Sprintf("dataloader: epoch %d, batch %d, sample %d: %v", e.Epoch, e.Batch, e.Index, e.Err)
}

// Unwrap returns Err.
func (e *SampleError) Unwrap() error { return e.Err }

// PanicError is what a loop panics with when a data set or sampler panicked in a worker, at the place of
// the batch that was being read. It is an error, and if the value was one too, errors.Is and
// errors.As see it.
type PanicError struct {
	Epoch, Batch int
	Index        int    // the sample; -1 if not in the Read of one
	Value        any    // what it panicked with
	Stack        []byte // of the worker
}

// Error names the epoch, the batch and the sample, and has the value and the worker's stack, in several lines.
func (e *PanicError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dataloader: epoch %d, batch %d", e.Epoch, e.Batch)
	if e.Index >= 0 {
		fmt.Fprintf(&b, ", sample %d", e.Index)
	}
	fmt.Fprintf(&b, ": panic: %v\n\n%s", e.Value, e.Stack)
	return b.String()
}

// Unwrap returns Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
