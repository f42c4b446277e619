package pintensor

// This file tests who may release, what is left of a released tensor, and what the collector gives back.

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

func TestOnlyTheOwnerReleases(t *testing.T) {
	e := newRig(t)
	other := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
	view := slice(t, d, tensor.S(1, 3))
	clone := d.ShallowClone()
	rewrapped := tensor.New(tensor.WithShape(24), tensor.WithBacking(d.Data()))
	transposed := d.ShallowClone()
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*tensor.Dense{"view": view, "clone": clone, "rewrapped": rewrapped, "transposed": transposed} {
		if err := e.Release(x); !errors.Is(err, ErrNotOwner) {
			t.Errorf("%s: %v, want ErrNotOwner", name, err)
		}
		if !e.IsPinned(x) || !other.IsPinned(x) || !e.Owns(x) || other.Owns(x) {
			t.Errorf("%s: pinned %v, owned %v, by the other engine %v", name, e.IsPinned(x), e.Owns(x), other.Owns(x))
		}
	}
	if err := other.Release(d); !errors.Is(err, ErrNotPinned) {
		t.Errorf("another engine: %v, want ErrNotPinned", err)
	}
	plain := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(6, 4))
	if err := e.Release(plain); !errors.Is(err, ErrNotPinned) {
		t.Errorf("ordinary memory: %v, want ErrNotPinned", err)
	}
	if e.IsPinned(plain) || e.Owns(plain) {
		t.Error("ordinary memory counts as pinned or owned")
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]*tensor.Dense{"clone": clone, "rewrapped": rewrapped} {
		if err := e.Release(x); !errors.Is(err, ErrReleased) {
			t.Errorf("%s after the release: %v, want ErrReleased", name, err)
		}
	}
}

// The owner's header may be gone, and a view have its address.
func TestAViewAtTheOwnersAddressIsNoOwner(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
	view := slice(t, d, tensor.S(0, 3))
	b := blocks.find(base(d))
	b.owner = addressOf(view)
	if err := e.Release(view); !errors.Is(err, ErrNotOwner) {
		t.Errorf("%v, want ErrNotOwner", err)
	}
	b.owner = addressOf(d)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseTwice(t *testing.T) {
	e := newRig(t)
	a := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
	where := base(a)
	if err := e.Release(a); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(a); !errors.Is(err, ErrReleased) {
		t.Fatalf("cached: %v, want ErrReleased", err)
	}
	for range 10 { // however often the block has been lent since
		b := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
		if base(b) != where {
			t.Fatal("the block was not lent again")
		}
		b.Data().([]float32)[0] = 42
		if err := e.Release(a); !errors.Is(err, ErrReleased) {
			t.Fatalf("lent again: %v, want ErrReleased", err)
		}
		if b.Data().([]float32)[0] != 42 {
			t.Fatal("a refused Release changed the new owner's data")
		}
		if err := e.Release(b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReleaseAfterChangesToTheHeader(t *testing.T) {
	e := newRig(t)
	for name, change := range map[string]func(*tensor.Dense) error{
		"reshape":            func(d *tensor.Dense) error { return d.Reshape(24) },
		"transpose":          func(d *tensor.Dense) error { return d.T() },
		"transpose and move": func(d *tensor.Dense) error { return errors.Join(d.T(), d.Transpose()) },
		"engine replaced":    func(d *tensor.Dense) error { tensor.WithEngine(tensor.Float64Engine{})(d); return nil },
		"cut short":          func(d *tensor.Dense) error { d.Raw = d.Raw[8:16]; return nil },
	} {
		d := must[*tensor.Dense](t)(e.New(tensor.Float64, 6, 4))
		if err := change(d); err != nil {
			t.Fatal(err)
		}
		if err := e.Release(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := e.Release(d); !errors.Is(err, ErrReleased) {
			t.Errorf("%s: second: %v, want ErrReleased", name, err)
		}
	}
	if s := e.Stats(); s.Cold != 1 {
		t.Errorf("%d blocks were made, want 1: some header lost its block", s.Cold)
	}
}

// A header that lost its memory can't release it; the collector does.
func TestHeadersThatLoseTheirMemory(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float64, 6, 4))
	tensor.ReturnTensor(d)
	if err := e.Release(d); !errors.Is(err, ErrNotPinned) {
		t.Errorf("after ReturnTensor: %v, want ErrNotPinned", err)
	}
	d2 := must[*tensor.Dense](t)(e.New(tensor.Float64, 2, 2))
	encoded := must[[]byte](t)(tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float64{1, 2, 3, 4})).GobEncode())
	if err := d2.GobDecode(encoded); err != nil {
		t.Fatal(err)
	}
	if e.IsPinned(d2) {
		t.Error("decoded into ordinary memory, and still called pinned")
	}
	if err := e.Release(d2); !errors.Is(err, ErrNotPinned) {
		t.Errorf("after GobDecode: %v, want ErrNotPinned", err)
	}
	gcUntil(t, "both blocks are back", func() bool { return e.Stats().Reclaimed == 2 })
}

func TestReleasedTensorsRefuseToWork(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 2, 2))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	next := must[*tensor.Dense](t)(e.New(tensor.Float32, 2, 2))
	defer func() {
		if err := e.Release(next); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tensor.Add(d, next); err == nil {
		t.Error("Add read a released tensor")
	}
	if _, err := tensor.Add(next, float32(1), tensor.WithReuse(d)); err == nil {
		t.Error("Add wrote into a released tensor")
	}
	if _, err := d.At(0, 0); err == nil {
		t.Error("At read a released tensor")
	}
	if _, err := e.Pin(d); !errors.Is(err, ErrReleased) {
		t.Errorf("Pin: %v, want ErrReleased", err)
	}
	if _, err := Acquire(d); !errors.Is(err, ErrReleased) {
		t.Errorf("Acquire: %v, want ErrReleased", err)
	}
	_ = fmt.Sprint(d) // must not panic
}

func TestPoison(t *testing.T) {
	e := newRig(t, WithPoison())
	f := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	g := must[*tensor.Dense](t)(e.New(tensor.Float64, 100))
	i := must[*tensor.Dense](t)(e.New(tensor.Uint8, 101))
	floats, doubles, ints := f.Data().([]float32), g.Data().([]float64), i.Data().([]uint8)
	for _, d := range []*tensor.Dense{f, g, i} {
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
	for k := range floats {
		if x, y := floats[k], doubles[k]; x == x || y == y {
			t.Fatalf("element %d is %v, %v, want NaN", k, x, y)
		}
	}
	for k, x := range ints {
		if x != 0xCC {
			t.Fatalf("element %d is %#x, want 0xCC", k, x)
		}
	}
}

// pytorch PR#179863: memory that is used too long is hard to find, so a debug mode looks for late writers too.
func TestPoisonFindsLateWriters(t *testing.T) {
	e := newRig(t, WithPoison())
	for _, at := range []int{0, 57, 99} {
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100))
		late := d.Data().([]uint8)
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
		late[at]++
		_, err := e.New(tensor.Uint8, 1000)
		if want := fmt.Sprintf("pintensor: New: byte %d of a released tensor of 100 bytes was written after release; ", at); !errors.Is(err, ErrWritten) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New: %v, want %s", err, want)
		}
		next := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1000))
		if err := e.Release(next); err != nil {
			t.Fatal(err)
		}
	}
	func() {
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100))
		d.Data().([]uint8)[3] = 7
	}()
	gcUntil(t, "the block is reclaimed", func() bool { return e.Stats().Reclaimed == 1 })
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 100)) // what a dropped tensor held is no late write
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestReclaimedOnlyWhenNoViewIsLeft(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	data := d.Data().([]float32)
	for i := range data {
		data[i] = float32(i)
	}
	view := slice(t, d, tensor.S(50, 60))
	part := data[90:95]
	d, data = nil, nil
	fillers := churn(t, e.Engine)
	for i := range 10 {
		if got := view.Data().([]float32)[i]; got != float32(50+i) {
			t.Fatalf("element %d of the view is %v, want %d", i, got, 50+i)
		}
	}
	if part[4] != 94 {
		t.Fatalf("the slice reads %v, want 94", part[4])
	}
	if got := e.Stats().Reclaimed; got != int64(fillers) {
		t.Fatalf("%d blocks were reclaimed, want the %d that nobody refers to", got, fillers)
	}
	view, part = nil, nil
	gcUntil(t, "the last view's block is back", func() bool { return e.Stats().Reclaimed == int64(fillers)+1 })
	runtime.KeepAlive(d)
	runtime.KeepAlive(data)
}

// churn lends and drops blocks filled with something else, and waits until all of them are reclaimed.
func churn(t *testing.T, e *Engine) (n int) {
	t.Helper()
	before := e.Stats().Reclaimed
	for n = range 20 {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
		for i := range d.Data().([]float32) {
			d.Data().([]float32)[i] = -1
		}
	}
	n++
	gcUntil(t, "what was dropped is reclaimed", func() bool { return e.Stats().Reclaimed >= before+int64(n) })
	return n
}

func TestABlockIsReclaimedAgainAndAgain(t *testing.T) {
	e := newRig(t)
	for i := range 5 {
		must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
		gcUntil(t, "the block is back", func() bool { return e.Stats().Reclaimed == int64(i)+1 })
	}
	if s := e.Stats(); !raceEnabled && s.Cold != 1 {
		t.Fatalf("%d blocks were made, want 1", s.Cold)
	}
}

func TestAllowDrop(t *testing.T) {
	e := newRig(t, WithLeakTracking())
	func() {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
		view := slice(t, d, tensor.S(1, 3))
		for name, c := range map[string]struct {
			t    *tensor.Dense
			want error
		}{
			"a view": {view, ErrNotOwner}, "ordinary memory": {tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4)), ErrNotPinned},
		} {
			if err := e.AllowDrop(c.t); !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "pintensor: AllowDrop: t of shape (") {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if err := e.AllowDrop(d); err != nil {
			t.Fatal(err)
		}
	}()
	gcUntil(t, "it is reclaimed", func() bool { return e.Stats().Reclaimed == 1 })
	if s := e.Stats(); s.Forgotten != 0 || len(e.Forgotten()) != 0 || len(e.Leaks()) != 0 {
		t.Errorf("%d are forgotten: %v; leaks %v", s.Forgotten, e.Forgotten(), e.Leaks())
	}
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4))
	if err := errors.Join(e.AllowDrop(d), e.Release(d)); err != nil {
		t.Fatal(err)
	}
	if err := e.AllowDrop(d); !errors.Is(err, ErrReleased) {
		t.Errorf("after Release: %v, want ErrReleased", err)
	}
	func() { must[*tensor.Dense](t)(e.New(tensor.Float32, 6, 4)) }() // the same block, of another owner
	gcUntil(t, "it is reclaimed", func() bool { return e.Stats().Reclaimed == 2 })
	if got := e.Stats().Forgotten; got != 1 {
		t.Errorf("%d are forgotten, want the one that nobody allowed to be dropped", got)
	}
}
