package asynccopy_test

// This file fuzzes layouts: whatever view a tensor is, its elements arrive on the device, and come back.

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

func FuzzViews(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 4))
	for range 8 {
		seed := make([]byte, 8192)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	shared := newRig(f, soft.New(soft.Config{Host: locking{}}))
	s, other := shared.stream(), shared.stream()
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &rig{TB: t, dev: shared.dev, drv: shared.drv, engine: shared.engine}
		rapid.MakeFuzz(func(t *rapid.T) { roundTrips(t, r, s, other) })(t, data)
	})
}

// roundTrips copies a tensor to the device in every way, and back.
func roundTrips(t *rapid.T, r *rig, s, other *asynccopy.Stream) {
	src := drawAny(t, r)
	var want []byte
	if src.Shape().TotalSize() > 0 {
		want = elements(src)
	}
	x := must(s.ToDevice(src, rapid.Bool().Draw(t, "nonBlocking")))(r)
	batch := must(s.ToDeviceBatch([]*tensor.Dense{src, drawAny(t, r), src}, true))(r)
	y := must(other.Copy(batch[2], true))(r)
	r.ok(s.ToDeviceInto(batch[0], src, true))
	for _, z := range append(batch, x, y) {
		if z == batch[1] {
			continue
		}
		host := must(must(other.ToHost(z, true))(r).Wait(r.Context()))(r)
		if !bytes.Equal(host.Raw, want) || host.Dtype() != src.Dtype() || !reflect.DeepEqual(host.Shape(), src.Shape()) {
			t.Fatalf("%v%v with strides %v came back as %v%v, %x, want %x", src.Dtype(), src.Shape(), src.Strides(), host.Dtype(), host.Shape(), host.Raw, want)
		}
		r.release(host)
	}
	into := tensor.New(tensor.Of(src.Dtype()), tensor.WithShape(src.Shape()...))
	must(s.ToHostInto(into, y, false))(r)
	if !bytes.Equal(into.Raw, want) {
		t.Fatalf("ToHostInto: %x, want %x", into.Raw, want)
	}
	for _, z := range append(batch, x, y) {
		r.ok(z.Release())
	}
}

// drawAny is drawView, or a scalar, or a tensor of no elements.
func drawAny(t *rapid.T, r *rig) *tensor.Dense {
	switch rapid.IntRange(0, 7).Draw(t, "any") {
	case 0:
		src := tensor.New(tensor.Of(rapid.SampledFrom(dtypes).Draw(t, "dtype")), tensor.WithShape())
		pattern(src, rapid.Uint64().Draw(t, "seed"))
		return src
	case 1:
		shape := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 4).Draw(t, "shape")
		shape[rapid.IntRange(0, len(shape)-1).Draw(t, "axis")] = 0
		return tensor.New(tensor.Of(rapid.SampledFrom(dtypes).Draw(t, "dtype")), tensor.WithShape(shape...))
	}
	return drawView(t, r)
}
