package pintensor

// This file has EnsurePinned: Pin for those who don't know whether it is needed.

import (
	"errors"
	"fmt"

	"github.com/pintensor/pin/internal/strided"
	"gorgonia.org/tensor"
)

// EnsurePinned returns t itself if its memory is page-locked, by any engine of the process, and
// contiguous in row-major order, and Pin(t) if not. Views and Registered tensors are returned as they
// are too, and so is memory of this engine that the system did not let it page-lock: a copy would be no
// better.
//
// What it returned is the caller's to release if it is another tensor than t. If it is t, whoever owned t
// still does, and it must not be released on account of this call:
//
//	pinned, err := engine.EnsurePinned(t)
//	...
//	if pinned != t {
//		err = engine.Release(pinned)
//	}
//
// Where t itself is returned nothing is copied or allocated, and a later write to one is one to the other.
// A tensor that was released is ErrReleased.
func (e *Engine) EnsurePinned(t *tensor.Dense) (*tensor.Dense, error) {
	if t == nil {
		return nil, errors.New("pintensor: EnsurePinned: t is nil, want a *tensor.Dense")
	}
	if err := e.usable(); err != nil {
		return nil, fmt.Errorf("pintensor: EnsurePinned: %w", err)
	}
	asItIs, err := e.isGood(t)
	if err != nil {
		return nil, fmt.Errorf("pintensor: EnsurePinned: t of shape %v: %w", t.Shape(), err)
	}
	if asItIs {
		return t, nil
	}
	return e.Pin(t)
}

// isGood reports whether Pin(t) would gain nothing.
func (e *Engine) isGood(t *tensor.Dense) (bool, error) {
	hold, err := acquire(t)
	if err != nil {
		return false, err
	}
	defer hold.Done()
	if hold.b == nil || !hold.Pinned() && hold.b.eng != e {
		return false, nil
	}
	layout, err := strided.Of(t)
	return err == nil && layout.Contiguous(), err
}
