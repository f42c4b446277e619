package pintensor

import (
	"errors"
	"testing"

	"gorgonia.org/tensor"
)

func TestEnsurePinned(t *testing.T) {
	e, other := newRig(t), newRig(t)
	fresh := func() *tensor.Dense { return must[*tensor.Dense](t)(e.New(tensor.Float32, 4, 6)) }
	pinned, elsewhere := fresh(), must[*tensor.Dense](t)(other.New(tensor.Float32, 4, 6))
	transposed := fresh()
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	// One that shares no page with anything.
	registered := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(1<<20))
	unregister := must[func() error](t)(e.Register(registered))
	ordinary := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 6))

	for name, c := range map[string]struct {
		t      *tensor.Dense
		asItIs bool
	}{
		"pinned":             {pinned, true},
		"by another engine":  {elsewhere, true},
		"rows of it":         {slice(t, pinned, tensor.S(1, 3)), true},
		"columns of it":      {slice(t, pinned, nil, tensor.S(1, 3)), false},
		"transposed":         {transposed, false},
		"registered":         {registered, true},
		"part of registered": {slice(t, registered, tensor.S(100, 200)), true},
		"ordinary":           {ordinary, false},
		"scalar":             {tensor.New(tensor.FromScalar(float32(1))), false},
		"empty":              {tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(2, 0)), false},
	} {
		before := e.Stats().Requested.Total
		got := must[*tensor.Dense](t)(e.EnsurePinned(c.t))
		if (got == c.t) != c.asItIs {
			t.Errorf("%s: returned as it is: %v, want %v", name, got == c.t, c.asItIs)
		}
		if !e.IsPinned(got) || !got.Shape().Eq(c.t.Shape()) {
			t.Errorf("%s: got shape %v, pinned %v", name, got.Shape(), e.IsPinned(got))
		}
		if c.asItIs {
			if e.Stats().Requested.Total != before {
				t.Errorf("%s: memory was asked for", name)
			}
			continue
		}
		if again := must[*tensor.Dense](t)(e.EnsurePinned(got)); again != got {
			t.Errorf("%s: copied a second time", name)
		}
		if err := e.Release(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(unregister(), e.Release(pinned), e.Release(transposed), other.Release(elsewhere)); err != nil {
		t.Fatal(err)
	}
}

// Without a limit of locked memory to speak of, copying again and again would gain nothing.
func TestEnsurePinnedKeepsWhatCannotBePinned(t *testing.T) {
	e := newRigOver(t, &fakeHost{name: "mlock", capacity: 1})
	d := must[*tensor.Dense](t)(e.Pin(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3))))
	if e.IsPinned(d) {
		t.Fatal("the test needs memory that is not locked")
	}
	if got := must[*tensor.Dense](t)(e.EnsurePinned(d)); got != d {
		t.Error("memory of the engine was copied")
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestEnsurePinnedRefuses(t *testing.T) {
	e := newRig(t)
	if _, err := e.EnsurePinned(nil); err == nil {
		t.Error("nil: no error")
	}
	if _, err := e.EnsurePinned(tensor.New(tensor.WithShape(1), tensor.WithBacking([]string{"a"}))); err == nil {
		t.Error("strings: no error")
	}
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if _, err := e.EnsurePinned(d); !errors.Is(err, ErrReleased) {
		t.Errorf("released: %v, want ErrReleased", err)
	}
	must[int64](t)(e.Trim(0))
	if _, err := e.EnsurePinned(d); !errors.Is(err, ErrReleased) {
		t.Errorf("released and given up: %v, want ErrReleased", err)
	}
	kept := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.EnsurePinned(kept); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v, want ErrClosed", err)
	}
	if err := e.Release(kept); err != nil {
		t.Fatal(err)
	}
}

func TestEnsurePinnedAllocatesNothing(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 4, 6))
	n := testing.AllocsPerRun(100, func() {
		if _, err := e.EnsurePinned(d); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}
