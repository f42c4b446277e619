package pintensor

// This file has the errors.

import (
	"errors"
	"fmt"
)

// Errors that the package's functions wrap; test for them with errors.Is.
var (
	// ErrLimit: the block would grow the engine past WithLimit, and nothing that it holds could be
	// given up for it. errors.As finds a *LimitError with the figures.
	ErrLimit = errors.New("limit reached")

	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("closed")

	// ErrNotPinned: the tensor's memory is not a block of this engine.
	ErrNotPinned = errors.New("not memory of this engine")

	// ErrReleased: the tensor was released before.
	ErrReleased = errors.New("already released")

	// ErrWritten: in poison mode, code that still uses a released tensor wrote to its memory. errors.As finds a
	// *WrittenError with the place in memory, and those in the program.
	ErrWritten = errors.New("written after release")

	// ErrNotOwner: the tensor's memory belongs to a block, but only the tensor that New or Pin
	// returned may release it, and this is not that one.
	ErrNotOwner = errors.New("not the tensor that owns the block")

	// ErrOverlap: memory given to Register is page-locked already, or part of it.
	ErrOverlap = errors.New("overlaps page-locked memory")

	// ErrInUse: the memory is being copied, and did not come free within the time that calls wait.
	ErrInUse = errors.New("in use by a copy")
)

// LimitError says why memory could not be had. It is an ErrLimit.
type LimitError struct {
	Limit    int64 // what WithLimit allows, in bytes
	Asked    int64 // size of the block that was wanted, or of all that Reserve was to make, in bytes
	Lent     int64 // bytes lent and not released
	Cached   int64 // bytes in the cache, too few to make room, or beside lent ones in segments
	InFlight int64 // bytes that copies are reading or writing, lent or released
}

// Error gives the figures in bytes.
func (e *LimitError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("limit reached: limit %d bytes, lent %d, cached %d, in flight %d, asked for %d",
		e.Limit, e.Lent, e.Cached, e.InFlight, e.Asked)
}

// Is reports whether target is ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// WrittenError is an ErrWritten: which memory was written to after its release, and the lines of the program that
// had to do with it. The one that wrote is not among them, but is likely to be near.
type WrittenError struct {
	Offset   int64    // of the first byte that is not what poison mode left, in bytes from the tensor's start
	Size     int64    // of the tensor that was released, in bytes
	Lent     []Caller // the call of New, Empty, Pin or Alloc that lent it, the innermost caller first; nil without WithLeakTracking
	Released []Caller // the call that released it; nil without WithLeakTracking, and where the collector gave it back
	Found    []Caller // the call that noticed: the next that was lent the memory, or that gave it up
}

// Error names the innermost line of each call.
func (e *WrittenError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("byte %d of a released tensor of %d bytes was written after release", e.Offset, e.Size)
	if e.Lent == nil {
		text += "; WithLeakTracking tells where it was lent and released"
	}
	for _, c := range []struct {
		what    string
		callers []Caller
	}{{"lent", e.Lent}, {"released", e.Released}, {"noticed", e.Found}} {
		if len(c.callers) > 0 {
			text += fmt.Sprintf("; %s at %v", c.what, c.callers[0])
		}
	}
	return text
}

// Is reports whether target is ErrWritten.
func (e *WrittenError) Is(target error) bool { return target == ErrWritten }
