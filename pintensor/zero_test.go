package pintensor

// This file tests engines that NewEngine did not make.

import (
	"errors"
	"testing"
	"time"

	"github.com/pintensor/pin/internal/leak"
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
