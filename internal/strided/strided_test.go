package strided

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"gorgonia.org/tensor"
	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

type odd struct{ A, B, C uint8 } // three bytes: no size that a processor moves at once

var dtypes = []tensor.Dtype{
	tensor.Bool, tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Float64, tensor.Int, tensor.Complex128,
	{Type: reflect.TypeFor[odd]()},
}

// fill gives every element its own bytes.
func fill(t *tensor.Dense) {
	for i := range t.Raw {
		t.Raw[i] = byte(i*7 + i>>8 + 1)
	}
	if t.Dtype() == tensor.Bool {
		for i := range t.Raw {
			t.Raw[i] &= 1
		}
	}
}

// want walks the tensor one coordinate after the other, by the definition of strides.
func want(t *tensor.Dense) []byte {
	var out []byte
	elem := int(t.Dtype().Size())
	shape := t.Shape()
	coord := make([]int, len(shape))
	for n := range shape.TotalSize() {
		k, at := n, 0
		for d := len(shape) - 1; d >= 0; d-- {
			coord[d] = k % shape[d]
			k /= shape[d]
			at += coord[d] * strideOf(shape, t.Strides(), d)
		}
		out = append(out, t.Raw[at*elem:][:elem]...)
	}
	return out
}

// draw makes a tensor and changes its layout in ways that tensor offers.
func draw(t *rapid.T) *tensor.Dense {
	dt := rapid.SampledFrom(dtypes).Draw(t, "dtype")
	shape := rapid.SliceOfN(rapid.IntRange(1, 7), 0, 4).Draw(t, "shape")
	opts := []tensor.ConsOpt{tensor.Of(dt), tensor.WithShape(shape...)}
	// tensor's own Slice panics on column-major vectors.
	if s := tensor.Shape(shape); !s.IsVector() && !s.IsScalarEquiv() && rapid.Bool().Draw(t, "column-major") {
		opts = append(opts, tensor.AsFortran(nil))
	}
	d := tensor.New(opts...)
	fill(d)
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		if rapid.Bool().Draw(t, "transpose") && d.Dims() > 1 {
			if err := d.T(rapid.Permutation(axes(d.Dims())).Draw(t, "axes")...); err != nil {
				t.Skip("tensor does not do it")
			}
			continue
		}
		if d.Dims() == 0 || d.Shape().TotalSize() <= 1 {
			continue
		}
		var slices []tensor.Slice
		for _, n := range d.Shape() {
			from := rapid.IntRange(0, n-1).Draw(t, "from")
			to := rapid.IntRange(from+1, n).Draw(t, "to")
			step := rapid.IntRange(1, 2).Draw(t, "step")
			slices = append(slices, tensor.S(from, to, step))
		}
		v, err := d.Slice(slices...)
		if err != nil {
			t.Skip("tensor does not do it")
		}
		d = v.(*tensor.Dense)
	}
	return d
}

func axes(n int) []int {
	a := make([]int, n)
	for i := range a {
		a[i] = i
	}
	return a
}

func TestGatherAnyLayoutWholeAndInPieces(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, gatherAnyLayout)
}

func FuzzGather(f *testing.F) { f.Fuzz(rapid.MakeFuzz(gatherAnyLayout)) }

func gatherAnyLayout(rt *rapid.T) {
	d := draw(rt)
	l, err := Of(d)
	if err != nil {
		// tensor makes such views itself: a slice with a step that ends within the last step.
		rt.Skip(err)
	}
	shape, strides := d.Shape().Clone(), append([]int(nil), d.Strides()...)
	expect := want(d)
	if l.Size() != len(expect) || l.Len() != d.Shape().TotalSize() {
		rt.Fatalf("Size %d, Len %d, want %d and %d", l.Size(), l.Len(), len(expect), d.Shape().TotalSize())
	}
	got := make([]byte, l.Size())
	l.Gather(got, 0)
	if !bytes.Equal(got, expect) {
		rt.Fatalf("shape %v strides %v: got %v, want %v", shape, strides, got, expect)
	}
	clear(got)
	l.GatherNonTemporal(got, 0)
	if !bytes.Equal(got, expect) {
		rt.Fatalf("past the caches, shape %v strides %v: got %v, want %v", shape, strides, got, expect)
	}
	clear(got)
	for off := 0; off < len(got); {
		n := rapid.IntRange(1, l.Len()).Draw(rt, "piece") * int(d.Dtype().Size())
		piece := got[off:min(off+n, len(got))]
		l.Gather(piece, off)
		off += len(piece)
	}
	if !bytes.Equal(got, expect) {
		rt.Fatalf("in pieces: shape %v strides %v: got %v, want %v", shape, strides, got, expect)
	}
	if !reflect.DeepEqual(shape, d.Shape().Clone()) || !reflect.DeepEqual(strides, append([]int(nil), d.Strides()...)) {
		rt.Fatalf("the tensor's shape changed: %v %v, was %v %v", d.Shape(), d.Strides(), shape, strides)
	}
}

func TestGatherAgreesWithTensor(t *testing.T) {
	leak.Check(t)
	d := tensor.New(tensor.WithShape(40, 50, 3), tensor.WithBacking(tensor.Range(tensor.Float32, 0, 6000)))
	if err := d.T(2, 0, 1); err != nil {
		t.Fatal(err)
	}
	v, err := d.Slice(nil, tensor.S(3, 39), tensor.S(1, 50))
	if err != nil {
		t.Fatal(err)
	}
	view := v.(*tensor.Dense)
	l, err := Of(view)
	if err != nil {
		t.Fatal(err)
	}
	if l.Contiguous() {
		t.Fatal("a sliced transpose is said to be contiguous")
	}
	got := make([]float32, l.Len())
	l.Gather(unsafe.Slice((*byte)(unsafe.Pointer(&got[0])), 4*len(got)), 0)
	i := 0
	for a := range view.Shape()[0] {
		for b := range view.Shape()[1] {
			for c := range view.Shape()[2] {
				x, err := view.At(a, b, c)
				if err != nil {
					t.Fatal(err)
				}
				if got[i] != x.(float32) {
					t.Fatalf("(%d,%d,%d): got %v, want %v", a, b, c, got[i], x)
				}
				i++
			}
		}
	}
}

func TestContiguous(t *testing.T) {
	leak.Check(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 6))
	rows, _ := d.Slice(tensor.S(1, 3))
	cols, _ := d.Slice(nil, tensor.S(1, 3))
	oneCol, _ := d.Slice(nil, tensor.S(2))
	fortran := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 6), tensor.AsFortran(nil))
	fortranVector := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 1), tensor.AsFortran(nil))
	for _, c := range []struct {
		name string
		t    *tensor.Dense
		want bool
		run  int
	}{
		{"whole", d, true, 96}, {"rows", rows.(*tensor.Dense), true, 48}, {"columns", cols.(*tensor.Dense), false, 8},
		{"one column", oneCol.(*tensor.Dense), false, 4}, {"column-major", fortran, false, 4},
		{"column-major vector", fortranVector, true, 16},
		{"scalar", tensor.New(tensor.FromScalar(1.0)), true, 8},
	} {
		l, err := Of(c.t)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if l.Contiguous() != c.want {
			t.Errorf("%s: Contiguous is %v, want %v", c.name, l.Contiguous(), c.want)
		} else if l.Run() != c.run {
			t.Errorf("%s: runs of %d bytes, want %d", c.name, l.Run(), c.run)
		}
	}
}

func TestEmptyTensors(t *testing.T) {
	leak.Check(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3, 0, 2))
	l, err := Of(d)
	if err != nil || l.Len() != 0 || l.Size() != 0 || !l.Contiguous() {
		t.Fatalf("layout %+v, %v, want an empty one", l, err)
	}
	l.Gather(nil, 0)
}

func TestShapesThatDoNotFitAreErrors(t *testing.T) {
	leak.Check(t)
	for name, spoil := range map[string]func(*tensor.Dense){
		"larger than the memory": func(d *tensor.Dense) { d.AP = tensor.MakeAP(tensor.Shape{5, 5}, []int{5, 1}, 0, 0) },
		"before the memory":      func(d *tensor.Dense) { d.AP = tensor.MakeAP(tensor.Shape{4, 4}, []int{4, -1}, 0, 0) },
		"no memory":              func(d *tensor.Dense) { d.Raw = nil },
	} {
		d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 4))
		spoil(d)
		if _, err := Of(d); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Of(nil); err == nil {
		t.Error("nil: no error")
	}
	if _, err := Of(new(tensor.Dense)); err == nil {
		t.Error("no dtype: no error")
	}
}

func TestMask(t *testing.T) {
	leak.Check(t)
	d := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float64{0, 1, 2, 3, 4, 5}, []bool{true, false, false, false, false, true}))
	if err := d.T(); err != nil {
		t.Fatal(err)
	}
	l, err := Of(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Mask(d.Mask())
	if err != nil {
		t.Fatal(err)
	}
	if want := []bool{true, false, false, false, false, true}; !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if _, err := l.Mask(d.Mask()[:5]); err == nil || !strings.Contains(err.Error(), "5 values, want 6") {
		t.Errorf("a short mask: %v", err)
	}
}

func BenchmarkGather(b *testing.B) {
	for _, c := range []struct {
		name string
		view func(*tensor.Dense) *tensor.Dense
	}{
		{"contiguous", func(d *tensor.Dense) *tensor.Dense { return d }},
		{"columns", func(d *tensor.Dense) *tensor.Dense {
			v, _ := d.Slice(nil, tensor.S(0, 512))
			return v.(*tensor.Dense)
		}},
		{"transposed", func(d *tensor.Dense) *tensor.Dense { _ = d.T(); return d }},
	} {
		b.Run("layout="+c.name, func(b *testing.B) {
			l, err := Of(c.view(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(1024, 1024))))
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, l.Size())
			b.SetBytes(int64(l.Size()))
			b.ReportAllocs()
			for b.Loop() {
				l.Gather(dst, 0)
			}
		})
	}
}
