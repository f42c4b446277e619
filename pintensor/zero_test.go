package pintensor

// This file tests engines that NewEngine did not make, and other values that nobody did.

import (
	"errors"
	"testing"
	"time"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/zerocall"
	"gorgonia.org/tensor"
)

func TestEnginesThatWereNotMade(t *testing.T) {
	leak.Check(t)
	x := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(2))
	for name, e := range map[string]*Engine{"nil": nil, "zero": {}} {
		for call, f := range map[string]func() error{
			"New":          func() error { _, err := e.New(tensor.Float32, 2); return err },
			"Empty":        func() error { _, err := e.Empty(tensor.Float32, 2); return err },
			"Pin":          func() error { _, err := e.Pin(x); return err },
			"PinInto":      func() error { return e.PinInto(x, x) },
			"EnsurePinned": func() error { _, err := e.EnsurePinned(x); return err },
			"AllocBuffer":  func() error { _, err := e.AllocBuffer(2); return err },
			"Alloc":        func() error { _, err := e.Alloc(2); return err },
			"Register":     func() error { _, err := e.Register(x); return err },
			"Reserve":      func() error { return e.Reserve(bg, 1, 1) },
			"ReserveAsync": func() error { return <-e.ReserveAsync(bg, 1, 1) },
			"Trim":         func() error { _, err := e.Trim(0); return err },
			"TrimOlder":    func() error { _, err := e.TrimOlder(time.Second); return err },
			"Close":        func() error { return e.Close() },
		} {
			want := "pintensor: " + call + ": the engine was not made by NewEngine"
			if err := f(); err == nil || err.Error() != want {
				t.Errorf("%s engine: %v, want %s", name, err, want)
			}
		}
		if err := e.Release(x); !errors.Is(err, ErrNotPinned) {
			t.Errorf("%s engine: Release: %v", name, err)
		}
	}
}

// Every method of every type is called on values that nobody made.
func TestMethodsOfNilAndZero(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 4))
	done := newWork()
	done.complete()
	args := []any{bg, d, tensor.Float32, 4, int64(4), time.Second, done, ErrLimit}
	for _, z := range []*Engine{nil, {}} {
		zerocall.Methods(t, z, "pintensor: ", args, "Memcpy") // a copy that needs no engine
	}
	zerocall.Methods(t, Hold{}, "pintensor: ", args)
	zerocall.Methods(t, Buffer{}, "pintensor: ", args, "Acquire") // a Hold on nothing
	for _, z := range []any{
		(*LimitError)(nil), new(LimitError), (*WrittenError)(nil), new(WrittenError),
		Stats{}, Usage{}, Calls{}, Leak{}, Forgotten{}, Caller{},
	} {
		zerocall.Methods(t, z, "pintensor: ", args)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}
