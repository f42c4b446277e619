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

	// ErrWritten: in poison mode, code that still uses a released tensor wrote to its memory.
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
	return fmt.Sprintf("limit reached: limit %d bytes, lent %d, cached %d, in flight %d, asked for %d",
		e.Limit, e.Lent, e.Cached, e.InFlight, e.Asked)
}

// Is reports whether target is ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }
