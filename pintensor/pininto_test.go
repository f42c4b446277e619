package pintensor

// This file tests what PinInto copies, and what it refuses.

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

// numbered returns a tensor whose elements are all different, but for small dtypes.
func numbered(dt tensor.Dtype, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(tensor.Range(dt, 1, 1+tensor.Shape(shape).TotalSize())))
}

// drawSource returns a tensor of the shape, in one of the layouts that there are.
func drawSource(rt *rapid.T, dt tensor.Dtype, shape []int) *tensor.Dense {
	rt.Helper()
	must := func(v tensor.View, err error) *tensor.Dense {
		if err != nil {
			rt.Fatal(err)
		}
		return v.(*tensor.Dense)
	}
	switch rapid.SampledFrom([]string{"contiguous", "transposed", "columns", "rows", "column-major"}).Draw(rt, "layout") {
	case "transposed":
		axes := rapid.Permutation([]int{0, 1, 2, 3}[:len(shape)]).Draw(rt, "axes")
		before := make([]int, len(shape))
		for i, a := range axes {
			before[a] = shape[i]
		}
		src := numbered(dt, before...)
		if err := src.T(axes...); err != nil {
			var same tensor.NoOpError
			if !errors.As(err, &same) {
				rt.Fatal(err)
			}
		}
		return src
	case "columns":
		wider := slices.Clone(shape)
		wider[len(shape)-1] += 3
		slices := make([]tensor.Slice, len(shape))
		slices[len(shape)-1] = tensor.S(2, 2+shape[len(shape)-1])
		return must(numbered(dt, wider...).Slice(slices...))
	case "rows":
		longer := slices.Clone(shape)
		longer[0] += 2
		return must(numbered(dt, longer...).Slice(tensor.S(1, 1+shape[0])))
	case "column-major":
		return tensor.New(tensor.AsFortran(tensor.Range(dt, 1, 1+tensor.Shape(shape).TotalSize())), tensor.WithShape(shape...))
	}
	return numbered(dt, shape...)
}

// elements returns the elements in row-major order, one by one.
func elements(t *tensor.Dense) []any {
	var all []any
	shape := t.Shape()
	at := make([]int, len(shape))
	for range shape.TotalSize() {
		x, err := t.At(at...)
		if err != nil {
			return []any{err}
		}
		all = append(all, x)
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
	return all
}

// PinInto gives dst what a loop over the elements would, and touches nothing beside it.
func TestPinInto(t *testing.T) {
	e := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(2, 6), 1, 4).Draw(rt, "shape")
		dt := rapid.SampledFrom([]tensor.Dtype{tensor.Float32, tensor.Float64, tensor.Int16, tensor.Uint8, tensor.Complex128}).Draw(rt, "dtype")
		src := drawSource(rt, dt, shape)
		if !slices.Equal(src.Shape(), shape) {
			rt.Fatalf("the test made a source of shape %v, want %v", src.Shape(), shape)
		}
		// dst is the middle of a tensor of three such, or that of memory given to Register.
		whole := append([]int{3 * shape[0]}, shape[1:]...)
		var all *tensor.Dense
		free := func() error { return e.Release(all) }
		var err error
		if rapid.Bool().Draw(rt, "registered") {
			all = tensor.New(tensor.Of(dt), tensor.WithShape(whole...))
			free, err = e.Register(all)
		} else {
			all, err = e.New(dt, whole...)
		}
		if err != nil {
			rt.Fatal(err)
		}
		fillWith(all.Raw, 0xA5)
		v, err := all.Slice(tensor.S(shape[0], 2*shape[0]))
		if err != nil {
			rt.Fatal(err)
		}
		dst := v.(*tensor.Dense)
		before := slices.Clone(src.Raw)
		if err := e.PinInto(dst, src); err != nil {
			rt.Fatal(err)
		}
		if got, want := elements(dst), elements(src); !reflect.DeepEqual(got, want) {
			rt.Fatalf("elements are %v, want %v", got, want)
		}
		n := len(all.Raw) / 3
		for i, x := range all.Raw {
			if (i < n || i >= 2*n) && x != 0xA5 {
				rt.Fatalf("byte %d of %d is %#x, which is not dst's", i, len(all.Raw), x)
			}
		}
		if !bytes.Equal(src.Raw, before) {
			rt.Fatal("the source has changed")
		}
		if err := free(); err != nil {
			rt.Fatal(err)
		}
	})
}

// Several goroutines copy what is large, whatever its layout.
func TestPinIntoLarge(t *testing.T) {
	e := newRig(t, WithParallelism(8))
	const rows, cols = 3*parallelFrom/1024/4 + 1, 1024
	src := written(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(rows, cols)))
	turned := src.ShallowClone()
	if err := turned.T(); err != nil {
		t.Fatal(err)
	}
	for _, src := range []*tensor.Dense{src, turned} {
		want := must[*tensor.Dense](t)(e.Pin(src)) // TestLargeTensors looks at what this gives
		dst := must[*tensor.Dense](t)(e.New(tensor.Float32, src.Shape()...))
		if err := e.PinInto(dst, src); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(dst.Raw, want.Raw) {
			t.Errorf("the copy of shape %v differs from Pin's", src.Shape())
		}
		if err := errors.Join(e.Release(want), e.Release(dst)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPinIntoScalarsAndEmpties(t *testing.T) {
	e := newRig(t)
	s := must[*tensor.Dense](t)(e.New(tensor.Float64))
	if err := e.PinInto(s, tensor.New(tensor.FromScalar(2.5))); err != nil || s.ScalarValue() != 2.5 {
		t.Errorf("got %v, %v, want the scalar 2.5", s, err)
	}
	z := must[*tensor.Dense](t)(e.New(tensor.Float32, 2, 0))
	if err := e.PinInto(z, tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(2, 0))); err != nil {
		t.Error(err)
	}
	if err := errors.Join(e.Release(s), e.Release(z)); err != nil {
		t.Fatal(err)
	}
}

// dst has the source's mask afterwards, or none, and the source its own.
func TestPinIntoMasks(t *testing.T) {
	e := newRig(t)
	shared := []bool{false, true, false, false, false, false}
	masked := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{0, 1, 2, 3, 4, 5}, shared))
	if err := masked.T(); err != nil {
		t.Fatal(err)
	}
	dst := must[*tensor.Dense](t)(e.New(tensor.Float64, 3, 2))
	dst.SetMask(shared) // as WithMask does, which keeps the slice
	if err := e.PinInto(dst, masked); err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, false, true, false, false, false}; !slices.Equal(dst.Mask(), want) || !shared[1] {
		t.Errorf("mask %v, want %v; the source's is %v", dst.Mask(), want, shared)
	}

	// The rows of a tensor have parts of its mask.
	row := slice(t, dst, tensor.S(1, 2))
	plain := tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(row.Shape()...))
	if err := e.PinInto(row, plain); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(dst.Mask(), true) || len(row.Mask()) > 0 {
		t.Errorf("after a source without a mask: %v, and the row's %v", dst.Mask(), row.Mask())
	}
	row = slice(t, dst, tensor.S(1, 2))
	plain.SetMask([]bool{true, false})
	if err := e.PinInto(row, plain); err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, false, true, false, false, false}; !slices.Equal(dst.Mask(), want) {
		t.Errorf("after a row with a mask: %v, want %v", dst.Mask(), want)
	}
	if err := e.PinInto(dst, tensor.New(tensor.Of(tensor.Float64), tensor.WithShape(3, 2))); err != nil || len(dst.Mask()) > 0 {
		t.Errorf("%v, and the mask is %v, want none", err, dst.Mask())
	}
	if err := e.Release(dst); err != nil {
		t.Fatal(err)
	}
}

func TestPinIntoRefuses(t *testing.T) {
	e, other := newRig(t), newRig(t)
	fresh := func(e rig, shape ...int) *tensor.Dense {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, shape...))
		fillWith(d.Raw, 7)
		return d
	}
	ordinary := func(shape ...int) *tensor.Dense { return numbered(tensor.Float32, shape...) }
	dst, large, strange := fresh(e, 2, 3), fresh(e, 6, 3), fresh(other, 2, 3)
	transposed := fresh(e, 3, 2)
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	columns := slice(t, large, tensor.S(0, 3), tensor.S(0, 2))
	if err := columns.T(); err != nil {
		t.Fatal(err)
	}
	gone := fresh(e, 2, 3)
	view := slice(t, gone, nil)
	if err := e.Release(gone); err != nil {
		t.Fatal(err)
	}
	short := ordinary(2, 3)
	short.Raw = short.Raw[:20]
	odd := tensor.New(tensor.WithEngine(elsewhere{}), tensor.Of(tensor.Float32), tensor.WithShape(2, 3), tensor.FromMemory(1<<40, 24))
	unregistered := ordinary(2, 3)
	if err := must[func() error](t)(e.Register(unregistered))(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dst, src *tensor.Dense
		is       error
		text     string
	}{
		"nil dst":                {nil, dst, nil, "dst is nil, want a *tensor.Dense"},
		"nil src":                {dst, nil, nil, "src is nil, want a *tensor.Dense"},
		"ordinary dst":           {ordinary(2, 3), dst, ErrNotPinned, "dst of shape (2, 3): not memory of this engine"},
		"dst without memory":     {new(tensor.Dense), dst, ErrNotPinned, "dst of shape (): not memory of this engine"},
		"another engine's dst":   {strange, dst, ErrNotPinned, "dst of shape (2, 3): it is another engine's: not memory of this engine"},
		"released dst":           {gone, dst, ErrReleased, "dst of shape (2, 3): already released"},
		"view of a released dst": {view, dst, ErrReleased, "dst of shape (2, 3): already released"},
		"unregistered dst":       {unregistered, dst, ErrNotPinned, "dst of shape (2, 3): not memory of this engine"},
		"dst elsewhere":          {odd, dst, ErrNotPinned, "dst of shape (2, 3): not memory of this engine"},
		"transposed dst":         {transposed, dst, nil, "dst: its strides are [1 2] for shape (2, 3), want contiguous row-major memory"},
		"columns of dst":         {slice(t, large, nil, tensor.S(0, 2)), ordinary(6, 2), nil, "dst: its strides are [3 1] for shape (6, 2), want contiguous"},
		"released src":           {dst, gone, ErrReleased, "src of shape (2, 3): already released"},
		"view of a released src": {dst, view, ErrReleased, "src of shape (2, 3): already released"},
		"src elsewhere":          {dst, odd, nil, "src of shape (2, 3): its engine pintensor.elsewhere says that the host can't access its memory"},
		"src without dtype":      {dst, new(tensor.Dense), nil, "src is of "},
		"src too short":          {dst, short, nil, "src: shape (2, 3) with strides [3 1] does not fit into the tensor's 20 bytes"},
		"dtype":                  {dst, numbered(tensor.Float64, 2, 3), nil, "src is of float64, dst of float32: want the same dtype"},
		"shape":                  {dst, ordinary(3, 2), nil, "src has shape (3, 2), dst (2, 3): want the same shape"},
		"axes":                   {dst, ordinary(1, 2, 3), nil, "src has shape (1, 2, 3), dst (2, 3): want the same shape"},
		"itself":                 {dst, dst, nil, "dst of shape (2, 3) and src have memory in common"},
		"overlapping rows":       {slice(t, large, tensor.S(0, 3)), slice(t, large, tensor.S(2, 5)), nil, "dst of shape (3, 3) and src have memory in common"},
		"overlapping columns":    {slice(t, large, tensor.S(1, 3)), columns, nil, "dst of shape (2, 3) and src have memory in common"},
	} {
		err := e.PinInto(c.dst, c.src)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), "pintensor: PinInto: "+c.text) {
			t.Errorf("%s: %v, want %s", name, err, c.text)
		}
		for _, d := range []*tensor.Dense{dst, large, strange, transposed} {
			if i := slices.IndexFunc(d.Raw, func(x byte) bool { return x != 7 }); i >= 0 {
				t.Fatalf("%s: byte %d of a tensor has changed", name, i)
			}
		}
	}
	if err := errors.Join(other.Release(strange), e.Release(dst), e.Release(large), e.Release(transposed)); err != nil {
		t.Fatal(err)
	}
	must[int64](t)(e.Trim(0))
	if err := e.PinInto(gone, ordinary(2, 3)); !errors.Is(err, ErrReleased) {
		t.Errorf("released and given up: %v, want ErrReleased", err)
	}
	kept := fresh(e, 2, 3)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.PinInto(kept, ordinary(2, 3)); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v, want ErrClosed", err)
	}
	if err := e.Release(kept); err != nil {
		t.Fatal(err)
	}
}

// Views of one tensor that have nothing in common are copied like others.
func TestPinIntoWithinOneTensor(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.Pin(numbered(tensor.Int64, 4, 3)))
	if err := e.PinInto(slice(t, d, tensor.S(2, 4)), slice(t, d, tensor.S(0, 2))); err != nil {
		t.Error(err)
	}
	if got, want := d.Data().([]int64), []int64{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

// Memory that is being unregistered is not page-locked any more.
func TestPinIntoWhatIsUnregistered(t *testing.T) {
	host := &fakeHost{name: "cuda"}
	e := newRigOver(t, host)
	d := numbered(tensor.Float32, 4)
	unregister := must[func() error](t)(e.Register(d))
	var during error
	host.unregistering = func() { during = e.PinInto(d, numbered(tensor.Float32, 4)) }
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(during, ErrNotPinned) {
		t.Errorf("%v, want ErrNotPinned", during)
	}
}

// Memory that could not be page-locked is the engine's all the same.
func TestPinIntoWithoutPinning(t *testing.T) {
	e := newRigOver(t, &fakeHost{name: "mlock", capacity: 1})
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	if e.IsPinned(d) {
		t.Fatal("the test needs memory that is not locked")
	}
	if err := e.PinInto(d, numbered(tensor.Float32, 3)); err != nil || d.Float32s()[2] != 3 {
		t.Errorf("%v, %v", d, err)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestPinIntoAllocatesNothing(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 64, 784))
	src := numbered(tensor.Float32, 64, 784)
	n := testing.AllocsPerRun(100, func() {
		if err := e.PinInto(d, src); err != nil {
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
