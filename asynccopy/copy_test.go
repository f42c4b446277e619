package asynccopy_test

// This file tests that copies arrive as they left: sizes, dtypes, layouts, kinds of memory, all calls.

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

// sizes are those at which copies take another path, or chunks end.
var sizes = []int{0, 1, 3, 4096, asynccopy.Smallest, asynccopy.Smallest + 1, 2<<20 + 7, 3*asynccopy.Largest + 1}

func TestCopiesArriveWhole(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		for _, n := range sizes {
			for _, nonBlocking := range []bool{false, true} {
				for _, lock := range []bool{false, true} {
					src, into := pageable(n, 1), pageable(n, 2)
					if lock {
						src, into = r.pinned(n, 1), r.pinned(n, 2)
					}
					x := must(s.ToDevice(src, nonBlocking))(r)
					r.ok(x.Wait(context.Background()))
					r.holds(s, x, 1)
					other := pageable(n, 3)
					r.ok(s.ToDeviceInto(x, other, nonBlocking))
					e := must(s.ToHostInto(into, x, nonBlocking))(r)
					r.ok(e.Wait(context.Background()))
					r.is(into, 3)
					if done, err := e.Done(); !done || err != nil {
						r.Fatalf("Done() = %v, %v after Wait", done, err)
					}
					r.ok(x.Release())
					if lock {
						r.release(src)
						r.release(into)
					}
				}
			}
		}
	})
}

// dtypes are all that a device takes, but for structs and arrays of them.
var dtypes = []tensor.Dtype{
	tensor.Bool, tensor.Int, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint, tensor.Uint8,
	tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Float32, tensor.Float64, tensor.Complex64, tensor.Complex128,
}

func TestDtypesAndShapesAreKept(t *testing.T) {
	shapes := []tensor.Shape{{}, {1}, {1, 1}, {5}, {2, 3}, {3, 1}, {1, 3}, {2, 3, 4}, {0}, {2, 0, 3}}
	onEach(t, func(r *rig) {
		s := r.stream()
		for _, dt := range dtypes {
			for _, shape := range shapes {
				src := tensor.New(tensor.Of(dt), tensor.WithShape(shape...))
				pattern(src, 1)
				x := must(s.ToDevice(src, true))(r)
				if !reflect.DeepEqual(x.Shape(), shape) || x.Dtype() != dt || x.MemSize() != uintptr(len(src.Raw)) {
					r.Fatalf("a Tensor of %v%v has dtype %v, shape %v, %d bytes", dt, shape, x.Dtype(), x.Shape(), x.MemSize())
				}
				got := must(must(s.ToHost(x, true))(r).Wait(r.Context()))(r)
				if got.Dtype() != dt || !reflect.DeepEqual(got.Shape(), shape) || !bytes.Equal(got.Raw, src.Raw) {
					r.Fatalf("%v%v came back as %v%v, %x, want %x", dt, shape, got.Dtype(), got.Shape(), got.Raw, src.Raw)
				}
				r.release(got)
				r.ok(x.Release())
			}
		}
	})
}

// TestViewsRoundTrip copies views of views and compares with their elements one by one.
func TestViewsRoundTrip(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		run := func(rt *rapid.T) {
			src := drawView(rt, r)
			want := elements(src)
			x := must(s.ToDevice(src, rapid.Bool().Draw(rt, "nonBlocking")))(r)
			got := must(must(s.ToHost(x, true))(r).Wait(r.Context()))(r)
			if !bytes.Equal(got.Raw, want) || !reflect.DeepEqual(got.Shape(), src.Shape()) {
				rt.Fatalf("%v with strides %v: got %v %x, want %x", src.Shape(), src.Strides(), got.Shape(), got.Raw, want)
			}
			r.release(got)
			r.ok(s.ToDeviceInto(x, src, true))
			into := tensor.New(tensor.Of(src.Dtype()), tensor.WithShape(src.Shape()...))
			r.ok(must(s.ToHostInto(into, x, true))(r).Wait(r.Context()))
			if !bytes.Equal(into.Raw, want) {
				rt.Fatalf("ToHostInto: %x, want %x", into.Raw, want)
			}
			r.ok(x.Release())
		}
		rapid.Check(r.TB.(*testing.T), run)
	})
}

// drawView makes a tensor and slices and transposes it.
func drawView(rt *rapid.T, r *rig) *tensor.Dense {
	dt := rapid.SampledFrom(dtypes).Draw(rt, "dtype")
	shape := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 4).Draw(rt, "shape")
	if rapid.IntRange(0, 9).Draw(rt, "large") == 0 {
		shape[0] *= asynccopy.Smallest / 64 // so that some are staged
	}
	opts := []tensor.ConsOpt{tensor.WithShape(shape...), tensor.Of(dt)}
	if rapid.Bool().Draw(rt, "column-major") {
		opts = append(opts, tensor.AsFortran(nil))
	}
	t := tensor.New(opts...)
	pattern(t, rapid.Uint64().Draw(rt, "seed"))
	for range rapid.IntRange(0, 2).Draw(rt, "views") {
		if len(t.Strides()) != t.Dims() {
			break // a column-major vector, of which tensor can't make views
		}
		switch rapid.IntRange(0, 2).Draw(rt, "kind") {
		case 0:
			axes := rapid.Permutation(axesOf(t.Dims())).Draw(rt, "axes")
			if err := t.T(axes...); err != nil {
				rt.Fatalf("T(%v) of %v: %v", axes, t.Shape(), err)
			}
		default:
			var slices []tensor.Slice
			for _, n := range t.Shape() {
				from := rapid.IntRange(0, n-1).Draw(rt, "from")
				to := rapid.IntRange(from+1, n).Draw(rt, "to")
				slices = append(slices, tensor.S(from, to))
			}
			if v, err := t.Slice(slices...); err == nil {
				t = v.(*tensor.Dense)
			}
		}
	}
	return t
}

func axesOf(dims int) []int {
	axes := make([]int, dims)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// elements returns the bytes of t's elements in row-major order, by the definition of strides.
func elements(t *tensor.Dense) []byte {
	shape, strides, size := t.Shape(), t.Strides(), int(t.Dtype().Size())
	if len(shape) == 0 {
		return t.Raw[:size]
	}
	var out []byte
	coords := make([]int, len(shape))
	for {
		at := 0
		for i, c := range coords {
			if c > 0 { // tensor gives a column-major vector one stride, whatever its shape
				at += c * strides[min(i, len(strides)-1)]
			}
		}
		out = append(out, t.Raw[at*size:][:size]...)
		i := len(shape) - 1
		for ; i >= 0; i-- {
			if coords[i]++; coords[i] < shape[i] {
				break
			}
			coords[i] = 0
		}
		if i < 0 {
			return out
		}
	}
}

func TestDownloadGivesTheSameDenseEachTime(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		x := must(s.ToDevice(pageable(100, 1), true))(r)
		down := must(s.ToHost(x, true))(r)
		first := must(down.Wait(r.Context()))(r)
		if again := must(down.Wait(r.Context()))(r); again != first {
			r.Fatalf("Wait returned another Dense the second time")
		}
		if !r.engine.Owns(first) {
			r.Errorf("the Dense is not of the device's engine")
		}
		r.release(first)
		r.ok(x.Release())
	})
}

// TestDownloadIsThereWhateverContextsEnded: a Wait whose ctx ends just as the copy completes must not take the
// copy for failed.
func TestDownloadIsThereWhateverContextsEnded(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		x := must(s.ToDevice(pageable(1000, 1), true))(r)
		down := must(s.ToHost(x, true))(r)
		ended, end := context.WithCancel(r.Context())
		end()
		for range 10 { // a late device runs the copy when it was asked some times
			if host, err := down.Wait(ended); err == nil {
				r.is(host, 1)
			} else if !errors.Is(err, context.Canceled) {
				r.Fatal(err)
			}
		}
		host := must(down.Wait(r.Context()))(r)
		if host == nil {
			r.Fatal("Wait gave nil")
		}
		r.is(host, 1)
		r.release(host)
		r.ok(x.Release())
	})
}

func TestPageableSourceMayChangeOnceTheCallReturnsIfBlocking(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		for _, n := range sizes {
			src := pageable(n, 1)
			x := must(s.ToDevice(src, false))(r)
			pattern(src, 2)
			r.holds(s, x, 1)
			r.ok(x.Release())
		}
	})
}

func TestStatsCountCopies(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		p := r.pinned(1000, 1)
		x := must(s.ToDevice(p, true))(r)
		y := must(s.ToDevice(pageable(500, 1), true))(r)
		r.ok(must(s.ToHostInto(p, x, true))(r).Wait(r.Context()))
		got := r.dev.Stats()
		want := asynccopy.Stats{
			Memory: asynccopy.Usage{Current: 1500, Peak: 1500, Total: 1500}, Lent: asynccopy.Usage{Current: 1536, Peak: 1536, Total: 1536},
			Tensors: 2, Streams: 1, Events: got.Events,
			ToDevice: asynccopy.Traffic{Copies: 2, Bytes: 1500, Staged: 1},
			ToHost:   asynccopy.Traffic{Copies: 1, Bytes: 1000},
		}
		if got != want {
			r.Errorf("Stats() = %+v, want %+v", got, want)
		}
		r.ok(x.Release())
		r.ok(y.Release())
		r.release(p)
	})
}
