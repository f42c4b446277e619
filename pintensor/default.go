package pintensor

// This file has the engine that the process shares, and the functions on it.

import (
	"sync"

	"gorgonia.org/tensor"
)

var defaultEngine = sync.OnceValue(func() *Engine {
	e, _ := NewEngine() // without options it cannot fail
	return e
})

// Default returns the engine that the process shares, made at first use.
func Default() *Engine { return defaultEngine() }

// New is Default().New.
func New(dt tensor.Dtype, shape ...int) (*tensor.Dense, error) { return Default().New(dt, shape...) }

// Empty is Default().Empty: New without the zeros.
func Empty(dt tensor.Dtype, shape ...int) (*tensor.Dense, error) {
	return Default().Empty(dt, shape...)
}

// Pin is Default().Pin.
func Pin(t *tensor.Dense) (*tensor.Dense, error) { return Default().Pin(t) }

// PinInto is Default().PinInto: Pin into a tensor of Default() that is there.
func PinInto(dst, src *tensor.Dense) error { return Default().PinInto(dst, src) }

// EnsurePinned is Default().EnsurePinned: t itself if it is pinned and contiguous, else a copy that is.
func EnsurePinned(t *tensor.Dense) (*tensor.Dense, error) { return Default().EnsurePinned(t) }

// IsPinned is Default().IsPinned: it answers for memory of every engine.
func IsPinned(t tensor.Tensor) bool { return Default().IsPinned(t) }

// Release is Default().Release.
func Release(t *tensor.Dense) error { return Default().Release(t) }
