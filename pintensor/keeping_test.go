package pintensor

// This file tests that an engine keeps the context that its memory is page-locked in.

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

// keepingHost is a host with something to keep.
type keepingHost struct {
	*fakeHost
	kept, keeps atomic.Int64
	err         error  // of Keep
	during      func() // called in Keep
}

func (h *keepingHost) Keep() (func() error, error) {
	if h.during != nil {
		h.during()
	}
	if h.err != nil {
		return nil, h.err
	}
	h.kept.Add(1)
	h.keeps.Add(1)
	return func() error { h.kept.Add(-1); return nil }, nil
}

// keepingEngine returns an engine over h itself: those that count and fail calls have nothing to keep.
func keepingEngine(t *testing.T, h *keepingHost) *Engine {
	t.Helper()
	leak.Check(t)
	e := must[*Engine](t)(NewEngine(WithDriver(h)))
	t.Cleanup(func() {
		checkEmpty(t, e)
		if n := h.kept.Load(); n != 0 {
			t.Errorf("kept %d times at the end", n)
		}
	})
	return e
}

func TestTheContextIsKeptUntilClose(t *testing.T) {
	for name, lock := range map[string]func(t *testing.T, e *Engine){
		"New": func(t *testing.T, e *Engine) {
			if err := e.Release(must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))); err != nil {
				t.Fatal(err)
			}
		},
		"Register": func(t *testing.T, e *Engine) {
			if err := must[func() error](t)(e.Register(tensor.New(tensor.FromScalar(1))))(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &keepingHost{fakeHost: &fakeHost{name: "cuda"}}
			e := keepingEngine(t, h)
			e.chooseHost()
			if h.kept.Load() != 0 {
				t.Error("kept before anything was page-locked")
			}
			for range 3 {
				lock(t, e)
				must[int64](t)(e.Trim(0))
				if h.kept.Load() != 1 || h.bytes() != 0 {
					t.Errorf("kept %d times with %d bytes locked, want once and 0", h.kept.Load(), h.bytes())
				}
			}
			for range 2 {
				if err := e.Close(); err != nil || h.kept.Load() != 0 {
					t.Errorf("Close: %v, kept %d times, want 0", err, h.kept.Load())
				}
			}
			if h.keeps.Load() != 1 {
				t.Errorf("kept %d times, want once", h.keeps.Load())
			}
		})
	}
}

// Close that comes while the context is about to be kept doesn't miss it.
func TestCloseWhileTheContextIsBeingKept(t *testing.T) {
	h := &keepingHost{fakeHost: &fakeHost{name: "cuda"}}
	e := keepingEngine(t, h)
	h.during = func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := e.Release(must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))); err != nil {
		t.Fatal(err)
	}
}

// A context that can't be kept costs time, not memory: the next call tells.
func TestTheContextCannotBeKept(t *testing.T) {
	h := &keepingHost{fakeHost: &fakeHost{name: "cuda"}, err: errors.New("broken")}
	e := keepingEngine(t, h)
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))
	if _, err := e.New(tensor.Uint8, 1); !errors.Is(err, h.err) {
		t.Errorf("the next call: %v, want the host's error", err)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}
