package asynccopy_test

// This file tests which work gets memory that was freed, and when; the limit; and Trim.

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// lateDevices are devices whose work runs only when it must.
func lateDevices(t *testing.T, test func(t *testing.T, r *rig, calls *drivertest.Faulty)) {
	for name, drv := range map[string]driver.Driver{
		"late":  soft.New(soft.Config{Host: locking{}, Late: true}),
		"plain": plain{soft.New(soft.Config{Host: locking{}, Late: true})},
	} {
		t.Run(name, func(t *testing.T) {
			calls := drivertest.NewFaulty(drv)
			test(t, newRig(t, calls), calls)
		})
	}
}

func TestFreedMemoryIsUsedAgain(t *testing.T) {
	lateDevices(t, func(t *testing.T, r *rig, calls *drivertest.Faulty) {
		const n = 5000
		a, b := r.stream(), r.stream()
		p := r.pinned(n, 1)
		x := must(a.ToDevice(p, true))(t)
		was := x.DevicePtr()
		r.ok(x.Release())
		elsewhere := must(b.ToDevice(p, true))(t) // the copy is under way, so b must not have the memory
		if elsewhere.DevicePtr() == was {
			t.Error("another stream got memory that is in use")
		}
		same := must(a.Empty(tensor.Uint8, n-100))(t) // of the same size, when it is rounded
		if same.DevicePtr() != was {
			t.Error("the stream that freed the memory did not get it again at once")
		}
		r.ok(a.ToDeviceInto(must(same.Part(0, tensor.Uint8, 10))(t), r.tensor(10), true))
		r.ok(same.Release())
		r.ok(a.Synchronize(t.Context()))
		r.ok(elsewhere.Release())
		r.ok(b.Synchronize(t.Context()))
		third := r.stream()
		before := calls.Calls("AllocAsync") + calls.Calls("Alloc")
		y, z := must(third.Empty(tensor.Uint8, n))(t), must(third.Empty(tensor.Uint8, n))(t)
		if made := calls.Calls("AllocAsync") + calls.Calls("Alloc") - before; made > 1 {
			t.Errorf("%d allocations, though memory is free whose uses are complete", made)
		}
		r.ok(y.Release())
		r.ok(z.Release())
		r.release(p)
	})
}

// TestUnusedMemoryIsTheStreamsOwn: of what nothing was copied into or from, no event tells when work that had the
// memory before, or allocated it, is complete.
func TestUnusedMemoryIsTheStreamsOwn(t *testing.T) {
	lateDevices(t, func(t *testing.T, r *rig, _ *drivertest.Faulty) {
		a, b := r.stream(), r.stream()
		x := must(a.Empty(tensor.Uint8, 100))(t)
		was := x.DevicePtr()
		r.ok(x.Release())
		if y := must(b.Empty(tensor.Uint8, 100))(t); y.DevicePtr() == was {
			t.Error("another stream got it")
		} else {
			r.ok(y.Release())
		}
		y := must(a.Empty(tensor.Uint8, 100))(t)
		if y.DevicePtr() != was {
			t.Error("the stream did not get it again")
		}
		r.ok(y.Release())
	})
}

// tensor returns ordinary memory.
func (r *rig) tensor(n int) *tensor.Dense {
	return tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(n))
}

// TestFreedMemoryThatOthersUse: what used it on other streams, other code's work too, comes before those who get it.
func TestFreedMemoryThatOthersUse(t *testing.T) {
	lateDevices(t, func(t *testing.T, r *rig, _ *drivertest.Faulty) {
		const n = 5000
		a, b, c := r.stream(), r.stream(), r.stream()
		one, two := r.pinned(n, 1), r.pinned(n, 2)
		for _, foreign := range []bool{false, true} {
			x := must(a.ToDevice(one, true))(t)
			var into *tensor.Dense
			if foreign {
				r.ok(x.Use(b))
			}
			into = r.pinned(n, 3)
			e := must(b.ToHostInto(into, x, true))(t) // what other code would do, in its place
			was := x.DevicePtr()
			r.ok(x.Release())
			if y := must(c.Empty(tensor.Uint8, n))(t); y.DevicePtr() == was {
				t.Error("a third stream got memory that is in use")
			} else {
				r.ok(y.Release())
			}
			y := must(a.ToDevice(two, true))(t) // which must not wait for b
			if y.DevicePtr() == was {
				t.Error("the stream that allocated the memory got it again while another uses it")
			}
			z := must(b.ToDevice(two, true))(t) // after b has read
			if z.DevicePtr() != was {
				t.Error("the stream that used the memory last did not get it")
			}
			r.ok(a.Synchronize(t.Context()))
			r.ok(e.Wait(t.Context()))
			r.is(into, 1)
			r.holds(c, y, 2)
			r.holds(c, z, 2)
			r.ok(y.Release())
			r.ok(z.Release())
			r.release(into)
		}
		r.release(one)
		r.release(two)
	})
}

// TestMemoryOfAClosedStreamIsUsedAgain by others.
func TestMemoryOfAClosedStreamIsUsedAgain(t *testing.T) {
	lateDevices(t, func(t *testing.T, r *rig, _ *drivertest.Faulty) {
		a, b := r.stream(), r.stream()
		x := must(a.ToDevice(pageable(5000, 1), true))(t)
		was := x.DevicePtr()
		r.ok(x.Release())
		r.ok(a.Close())
		y := must(b.ToDevice(pageable(5000, 2), true))(t)
		if y.DevicePtr() != was {
			t.Error("the memory was not used again")
		}
		r.holds(b, y, 2)
		r.ok(y.Release())
	})
}

func TestDeviceLimit(t *testing.T) {
	for _, pool := range []bool{true, false} {
		var drv driver.Driver = soft.New(soft.Config{Host: locking{}, Late: true})
		if !pool {
			drv = plain{drv}
		}
		r := newRig(t, drv, asynccopy.WithDeviceLimit(64<<10))
		s, other := r.stream(), r.stream()
		x := must(s.ToDevice(pageable(48<<10, 1), true))(t)
		for _, n := range []int{16<<10 + 1, 1 << 20, 1 << 40} {
			_, err := other.Empty(tensor.Uint8, n)
			if !errors.Is(err, asynccopy.ErrOutOfMemory) || !strings.Contains(err.Error(), "WithDeviceLimit") || !strings.HasPrefix(err.Error(), "asynccopy: ") {
				t.Errorf("%d bytes beyond the limit: %v", n, err)
			}
		}
		y := must(other.Empty(tensor.Uint8, 16<<10))(t)
		r.ok(x.Release())
		z := must(other.Empty(tensor.Uint8, 32<<10))(t) // of another size: what is cached gives way
		st := r.dev.Stats()
		if st.Lent.Current != 48<<10 || st.Lent.Peak > 64<<10 || st.Memory.Current != 48<<10 || st.Cached != 0 {
			t.Errorf("%+v", st)
		}
		r.ok(y.Release())
		r.ok(z.Release())
	}
	_, err := asynccopy.OpenSoft(asynccopy.WithDeviceLimit(0))
	refused(t, "no limit", err, "WithDeviceLimit", "bytes is 0", "OpenSoft")
}

func TestTrimGivesMemoryBack(t *testing.T) {
	lateDevices(t, func(t *testing.T, r *rig, _ *drivertest.Faulty) {
		s := r.stream()
		_, total, err := r.dev.MemInfo()
		r.ok(err)
		for _, n := range []int{100, 5000, 2 << 20} {
			r.ok(must(s.ToDevice(pageable(n, 1), true))(t).Release())
		}
		if r.dev.Stats().Cached < 5100 {
			t.Errorf("%d bytes are cached", r.dev.Stats().Cached)
		}
		r.ok(r.dev.Trim())
		free, _, err := r.dev.MemInfo()
		r.ok(err)
		if st := r.dev.Stats(); st.Cached != 0 || st.Lent.Current != 0 || free != total {
			t.Errorf("after Trim %d bytes of %d are free, and %+v", free, total, st)
		}
	})
	var none *asynccopy.Device
	refused(t, "nil", none.Trim(), "nil")
	d := must(asynccopy.OpenSoft())(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Trim(); !errors.Is(err, asynccopy.ErrClosed) {
		t.Errorf("Trim of a closed device: %v", err)
	}
}
