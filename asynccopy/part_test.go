package asynccopy_test

// This file tests parts of tensors: what they see, how long their memory lives, and what is refused.

import (
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// bytesOf copies x to the host.
func (r *rig) bytesOf(s *asynccopy.Stream, x *asynccopy.Tensor) []byte {
	r.Helper()
	host := must(must(s.ToHost(x, true))(r).Wait(r.Context()))(r)
	got := append([]byte(nil), host.Raw...)
	r.release(host)
	return got
}

func TestPartsShareMemory(t *testing.T) {
	onEach(t, func(r *rig) {
		s, other := r.stream(), r.stream()
		packed := r.pinned(1024, 1)
		x := must(s.ToDevice(packed, true))(r)
		images := must(x.Part(0, tensor.Float32, 2, 3))(r)
		labels := must(x.Part(256, tensor.Int64, 5))(r)
		scalar := must(x.Part(1023, tensor.Uint8))(r)
		empty := must(x.Part(1024, tensor.Float64, 0, 3))(r)
		inner := must(labels.Part(8, tensor.Uint16, 4))(r)
		for name, c := range map[string]struct {
			x         *asynccopy.Tensor
			from, n   int
			dimension int
		}{
			"images": {images, 0, 24, 2}, "labels": {labels, 256, 40, 1}, "scalar": {scalar, 1023, 1, 0},
			"empty": {empty, 1024, 0, 2}, "inner": {inner, 264, 8, 1},
		} {
			if got := r.bytesOf(other, c.x); string(got) != string(packed.Raw[c.from:c.from+c.n]) {
				r.Errorf("%s: %x, want %x", name, got, packed.Raw[c.from:c.from+c.n])
			}
			if p := c.x.DevicePtr(); c.n > 0 && p != x.DevicePtr()+uintptr(c.from) || c.n == 0 && p != 0 {
				r.Errorf("%s is at %#x, x at %#x", name, p, x.DevicePtr())
			}
			if c.x.MemSize() != uintptr(c.n) || c.x.Shape().Dims() != c.dimension {
				r.Errorf("%s is %v of %d bytes", name, c.x, c.x.MemSize())
			}
		}
		// What is copied into a part is there in x, and nothing else changes.
		values := tensor.New(tensor.WithBacking([]int64{1, 2, 3, 4, 5}))
		r.ok(other.ToDeviceInto(labels, values, true))
		if images.Ready() != labels.Ready() {
			r.Error("parts have events of their own")
		}
		want := append([]byte(nil), packed.Raw...)
		copy(want[256:], values.Raw)
		if got := r.bytesOf(s, x); string(got) != string(want) {
			r.Errorf("after a copy into a part x is %x, want %x", got, want)
		}
		into := tensor.New(tensor.Of(tensor.Int64), tensor.WithShape(5))
		must(s.ToHostInto(into, labels, false))(r)
		if string(into.Raw) != string(values.Raw) {
			r.Errorf("a part came back as %v", into)
		}
		for _, part := range []*asynccopy.Tensor{images, labels, scalar, empty, inner, x} {
			r.ok(part.Release())
		}
		r.release(packed)
	})
}

// TestStagedCopiesOfParts: chunks of a part go to its own place.
func TestStagedCopiesOfParts(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		n := longest()
		x := must(s.Empty(tensor.Uint8, 2*n))(r)
		first, second := must(x.Part(0, tensor.Uint8, n))(r), must(x.Part(int64(n), tensor.Uint8, n))(r)
		r.ok(s.ToDeviceInto(second, pageable(n, 2), true))
		r.ok(s.ToDeviceInto(first, pageable(n, 1), true))
		one, two := pageable(n, 3), pageable(n, 3)
		must(s.ToHostInto(one, first, false))(r)
		must(s.ToHostInto(two, second, false))(r)
		r.is(one, 1)
		r.is(two, 2)
		for _, y := range []*asynccopy.Tensor{x, first, second} {
			r.ok(y.Release())
		}
	})
}

// TestMemoryOfPartsLivesUntilTheLast releases x and its parts in every order.
func TestMemoryOfPartsLivesUntilTheLast(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			x := must(s.ToDevice(pageable(1000, 1), true))(r)
			part := must(x.Part(0, tensor.Uint8, 1000))(r)
			all := [3]*asynccopy.Tensor{x, part, must(part.Part(0, tensor.Uint8, 1000))(r)}
			for i, k := range order {
				r.holds(s, all[k], 1)
				if got := r.dev.Stats(); got.Memory.Current != 1000 || got.Tensors != 1 {
					r.Fatalf("order %v: before release %d the device has %+v", order, i, got)
				}
				r.ok(all[k].Release())
				if err := all[k].Release(); !errors.Is(err, asynccopy.ErrReleased) {
					r.Errorf("order %v: released twice: %v", order, err)
				}
				_, err := all[k].Part(0, tensor.Uint8, 1)
				if _, down := s.ToHost(all[k], true); !errors.Is(err, asynccopy.ErrReleased) || !errors.Is(down, asynccopy.ErrReleased) {
					r.Errorf("order %v: after release %d: %v, %v", order, i, err, down)
				}
				if all[k].DevicePtr() != 0 {
					r.Errorf("order %v: a released tensor has an address", order)
				}
			}
			if got := r.dev.Stats(); got.Memory.Current != 0 || got.Tensors != 0 {
				r.Fatalf("order %v: left %+v", order, got)
			}
		}
	})
}

// TestDroppedParts: memory is reclaimed once, when x and its parts are all unreachable.
func TestDroppedParts(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		collect := func(reclaimed int64) {
			r.Helper()
			deadline := time.Now().Add(10 * time.Second)
			for r.dev.Stats().Reclaimed < reclaimed && time.Now().Before(deadline) {
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			for range 3 {
				runtime.GC()
			}
			r.ok(must(s.Empty(tensor.Uint8, 1))(r).Release()) // frees what was found
			if got := r.dev.Stats(); got.Reclaimed != reclaimed {
				r.Fatalf("%d reclaimed, want %d", got.Reclaimed, reclaimed)
			}
		}
		x := must(s.ToDevice(pageable(1000, 1), false))(r)
		part := must(x.Part(0, tensor.Uint8, 1000))(r)
		x = nil // dropped, but its part is there
		collect(0)
		r.holds(s, part, 1)
		part = nil
		collect(1)
		x = must(s.ToDevice(pageable(1000, 1), false))(r)
		_ = must(x.Part(0, tensor.Uint8, 1000))(r) // never released: x is not enough
		r.ok(x.Release())
		x = nil
		collect(2)
		if got := r.dev.Stats(); got.Tensors != 0 || got.Memory.Current != 0 {
			r.Errorf("left %+v", got)
		}
	})
}

func TestBadParts(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	x := must(s.Empty(tensor.Float32, 25))(t)
	odd := tensor.Dtype{Type: tensor.String.Type}
	for _, c := range []struct {
		name   string
		offset int64
		dt     tensor.Dtype
		shape  []int
		words  []string
	}{
		{"negative offset", -4, tensor.Float32, nil, []string{"offset is -4", "100 bytes"}},
		{"offset past the end", 104, tensor.Float32, []int{0}, []string{"offset is 104", "100 bytes"}},
		{"too long", 4, tensor.Float32, []int{5, 5}, []string{"offset is 4", "100 bytes of float32(5, 5)"}},
		{"far too long", 100, tensor.Uint8, []int{math.MaxInt}, []string{"9223372036854775807"}},
		{"not aligned", 4, tensor.Float64, []int{2}, []string{"offset is 4", "multiple of 8", "float64"}},
		{"complex", 8, tensor.Complex128, []int{2}, []string{"offset is 8", "multiple of 16"}},
		{"pointers", 0, odd, []int{2}, []string{"string", "pointers"}},
		{"no dtype", 0, tensor.Dtype{}, []int{2}, []string{"dtype"}},
		{"negative shape", 0, tensor.Uint8, []int{-1}, []string{"-1"}},
	} {
		part, err := x.Part(c.offset, c.dt, c.shape...)
		refused(t, c.name, err, append(c.words, "Part: ")...)
		if part != nil {
			t.Errorf("%s: a part beside the error", c.name)
		}
	}
	_, err := (*asynccopy.Tensor)(nil).Part(0, tensor.Uint8)
	refused(t, "nil", err, "Part", "nil")
	r.ok(x.Release())
}

// TestPartAllocatesOnce: a Part is one object.
func TestPartAllocatesOnce(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	x := must(r.stream().Empty(tensor.Uint8, 4096))(t)
	n := testing.AllocsPerRun(100, func() {
		part, err := x.Part(256, tensor.Float32, 8, 16, 3)
		if err != nil || part.Release() != nil {
			t.Error(err)
		}
	})
	if n != 1 {
		t.Errorf("Part and Release allocate %v times", n)
	}
	r.ok(x.Release())
}

// Work that uses two parts ends both uses, in whatever order, and a copy into either follows it. A use that has
// ended, or never began, can't be ended.
func TestPartsAreUsedTogether(t *testing.T) {
	onEach(t, func(r *rig) {
		s, compute := r.stream(), r.stream()
		packed := r.pinned(1024, 1)
		x := must(s.ToDevice(packed, true))(r)
		r.release(packed)
		a := must(x.Part(0, tensor.Float32, 2))(r)
		b := must(x.Part(256, tensor.Float32, 2))(r)
		never := must(x.Part(512, tensor.Float32, 2))(r)
		for range 2 {
			r.ok(errors.Join(a.Use(compute), b.Use(compute)))
			r.ok(errors.Join(a.Used(compute), b.Used(compute)))
			for what, p := range map[string]*asynccopy.Tensor{"a": a, "b": b, "never": never} {
				if err := p.Used(compute); err == nil {
					r.Errorf("%s: Used without Use is no error", what)
				}
			}
			if a.Ready() != x.Ready() {
				r.Error("parts have events of their own")
			}
			r.ok(s.ToDeviceInto(b, tensor.New(tensor.WithBacking([]float32{1, 2})), true))
		}
		r.ok(a.Use(compute))
		r.ok(s.ToDeviceInto(b, tensor.New(tensor.WithBacking([]float32{1, 2})), true))
		if err := a.Used(compute); err == nil {
			r.Error("Used after a copy into another part is no error")
		}
		r.ok(errors.Join(a.Release(), b.Release(), never.Release(), x.Release()))
	})
}
