package pintensor

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

func TestPinIsAContiguousCopy(t *testing.T) {
	e := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(rt, "shape")
		dt := rapid.SampledFrom([]tensor.Dtype{tensor.Float32, tensor.Float64, tensor.Int16, tensor.Uint8, tensor.Complex128}).Draw(rt, "dtype")
		src := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(tensor.Range(dt, 0, tensor.Shape(shape).TotalSize())))
		if src.Dims() > 1 && rapid.Bool().Draw(rt, "transposed") {
			if err := src.T(); err != nil {
				rt.Skip(err)
			}
		}
		if src.Shape()[0] > 1 && src.Dims() > 1 && rapid.Bool().Draw(rt, "sliced") {
			v, err := src.Slice(nil, tensor.S(0, max(1, src.Shape()[1]-1)))
			if err != nil {
				rt.Skip(err)
			}
			src = v.(*tensor.Dense)
		}
		before := fmt.Sprintf("%v %v %v", src.Shape(), src.Strides(), src)
		got, err := e.Pin(src)
		if err != nil {
			rt.Fatal(err)
		}
		if after := fmt.Sprintf("%v %v %v", src.Shape(), src.Strides(), src); after != before {
			rt.Fatalf("Pin changed its source from %s to %s", before, after)
		}
		if !e.IsPinned(got) || got.RequiresIterator() || got.IsView() || !reflect.DeepEqual(got.Shape().Clone(), src.Shape().Clone()) || got.Dtype() != src.Dtype() {
			rt.Fatalf("copy of %v %v is %v %v, pinned %v, iterator %v", src.Shape(), src.Dtype(), got.Shape(), got.Dtype(), e.IsPinned(got), got.RequiresIterator())
		}
		if g, w := fmt.Sprint(got), fmt.Sprint(src); g != w {
			rt.Fatalf("copy of\n%s is\n%s", w, g)
		}
		if err := e.Release(got); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestPinScalarsAndEmpties(t *testing.T) {
	e := newRig(t)
	s := must[*tensor.Dense](t)(e.Pin(tensor.New(tensor.FromScalar(2.5))))
	if !s.IsScalar() || s.ScalarValue() != 2.5 {
		t.Errorf("got %v, want the scalar 2.5", s)
	}
	z := must[*tensor.Dense](t)(e.Pin(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(2, 0))))
	if !z.Shape().Eq(tensor.Shape{2, 0}) || len(z.Raw) != 0 || !e.IsPinned(z) {
		t.Errorf("got shape %v of %d bytes, pinned %v", z.Shape(), len(z.Raw), e.IsPinned(z))
	}
	for _, d := range []*tensor.Dense{s, z} {
		if err := e.Release(d); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Pin(new(tensor.Dense)); err == nil {
		t.Error("a header without dtype and memory: no error")
	}
	if _, err := e.Pin(tensor.New(tensor.WithShape(2), tensor.WithBacking([]string{"a", "b"}))); err == nil {
		t.Error("strings: no error")
	}
}

func TestPinCopiesWhatIsPinnedAlready(t *testing.T) {
	e := newRig(t)
	a := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	b := must[*tensor.Dense](t)(e.Pin(a))
	if base(a) == base(b) {
		t.Error("Pin returned its source's memory")
	}
	for _, d := range []*tensor.Dense{a, b} {
		if err := e.Release(d); err != nil {
			t.Error(err)
		}
	}
}

func TestPinKeepsMasks(t *testing.T) {
	e := newRig(t)
	src := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{0, 1, 2, 3, 4, 5}, []bool{false, true, false, false, false, false}))
	if err := src.T(); err != nil {
		t.Fatal(err)
	}
	got := must[*tensor.Dense](t)(e.Pin(src))
	if want := []bool{false, false, true, false, false, false}; !reflect.DeepEqual(got.Mask(), want) {
		t.Errorf("mask %v, want %v", got.Mask(), want)
	}
	if err := e.Release(got); err != nil {
		t.Fatal(err)
	}
}

func TestPinReadsOnly(t *testing.T) {
	e := newRig(t)
	src := tensor.New(tensor.WithShape(50, 40), tensor.WithBacking(tensor.Range(tensor.Float32, 0, 2000)))
	if err := src.T(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 { // the race detector watches
		wg.Go(func() {
			for range 20 {
				d, err := e.Pin(src)
				if err != nil {
					t.Error(err)
					return
				}
				if got := d.Data().([]float32)[1]; got != 40 {
					t.Errorf("element 1 is %v, want 40", got)
				}
				if err := e.Release(d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// A tensor of another device has addresses that the host must not follow.
func TestMemoryThatTheHostCannotAccess(t *testing.T) {
	e := newRig(t)
	d := tensor.New(tensor.WithEngine(elsewhere{}), tensor.Of(tensor.Float32), tensor.WithShape(4), tensor.FromMemory(1<<40, 16))
	_, pin := e.Pin(d)
	_, register := e.Register(d)
	for call, err := range map[string]error{"Pin": pin, "Register": register} {
		want := "pintensor: " + call + ": t of shape (4): its engine pintensor.elsewhere says that the host can't access its memory"
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
	released := must[*tensor.Dense](t)(e.New(tensor.Float32, 4))
	if err := e.Release(released); err != nil {
		t.Fatal(err)
	}
	_, pin = e.Pin(released)
	_, register = e.Register(released)
	for call, err := range map[string]error{"Pin": pin, "Register": register} {
		if want := "pintensor: " + call + ": t of shape (4): already released"; !errors.Is(err, ErrReleased) || err.Error() != want {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
}

// elsewhere is the engine of such a tensor.
type elsewhere struct{ tensor.StdEng }

func (elsewhere) AllocAccessible() bool { return false }
