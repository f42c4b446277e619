package asynccopy_test

// This file tests copies between tensors: of one device, and of two that can reach each other or not.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// pairs are two devices in every relation.
var pairs = map[string]struct {
	driver func() driver.Driver
	other  func() driver.Driver // nil: both are of one driver
	staged bool                 // copies go through the host
}{
	"direct":       {func() driver.Driver { return soft.New(soft.Config{Host: locking{}, Devices: 2}) }, nil, false},
	"direct, late": {func() driver.Driver { return soft.New(soft.Config{Host: locking{}, Devices: 2, Late: true}) }, nil, false},
	"plain":        {func() driver.Driver { return plain{soft.New(soft.Config{Host: locking{}, Devices: 2, Late: true})} }, nil, false},
	"apart": {func() driver.Driver {
		return soft.New(soft.Config{Host: locking{}, Devices: 2, Late: true, Apart: true})
	}, nil, true},
	"drivers": {
		func() driver.Driver { return soft.New(soft.Config{Host: locking{}}) },
		func() driver.Driver { return soft.New(soft.Config{Host: locking{}, Late: true}) }, true,
	},
}

// onPairs runs a test on two devices.
func onPairs(t *testing.T, test func(r *rig, other *asynccopy.Device)) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, pair.driver())
			drv, ordinal := r.drv, 1
			if pair.other != nil {
				drv, ordinal = drivertest.Checked(t, pair.other()), 0
			}
			other := r.second(drv, ordinal)
			test(r, other)
			for _, d := range []*asynccopy.Device{r.dev, other} {
				if st := d.Stats().OnDevice; st.Staged > 0 != pair.staged && st.Copies > 0 {
					t.Errorf("of %d copies to %v %d were staged", st.Copies, d, st.Staged)
				}
			}
		})
	}
	t.Run("cuda", func(t *testing.T) {
		drv := cuda(t)
		if n, err := drv.Devices(); err != nil || n < 2 {
			t.Skipf("%d devices, %v: two are needed", n, err)
		}
		r := newRig(t, drv)
		test(r, r.second(r.drv, 1))
	})
}

// second opens another device, which is closed, and looked at, before the rig's.
func (r *rig) second(drv driver.Driver, ordinal int) *asynccopy.Device {
	r.Helper()
	other := must(asynccopy.OpenDriver(drv, ordinal))(r)
	other.SetEngine(r.engine)
	r.Cleanup(func() {
		if err := other.Close(); err != nil {
			r.Errorf("Close of the other device: %v", err)
		}
		if s := other.Stats(); s.Memory.Current != 0 || s.Lent.Current != 0 || s.Cached != 0 || s.Tensors != 0 || s.Events != 0 {
			r.Errorf("left on the other device: %+v", s)
		}
	})
	return other
}

func TestCopiesWithinADevice(t *testing.T) {
	onEach(t, func(r *rig) {
		a, b := r.stream(), r.stream()
		for _, n := range sizes {
			x := must(a.ToDevice(pageable(n, 1), true))(r)
			y := must(b.Copy(x, true))(r)
			r.ok(a.ToDeviceInto(x, pageable(n, 2), true)) // after the copy
			r.holds(a, y, 1)
			r.ok(b.CopyInto(y, x, true))
			r.ok(x.Release())
			r.holds(b, y, 2)
			r.ok(y.Release())
		}
		whole := must(a.ToDevice(pageable(2000, 1), true))(r)
		front, back := must(whole.Part(0, tensor.Uint8, 1000))(r), must(whole.Part(1000, tensor.Uint8, 1000))(r)
		r.ok(a.CopyInto(back, front, false))
		r.holds(b, back, 1)
		for _, x := range []*asynccopy.Tensor{whole, front, back} {
			r.ok(x.Release())
		}
	})
}

func TestCopiesBetweenDevices(t *testing.T) {
	onPairs(t, func(r *rig, other *asynccopy.Device) {
		a, b := r.stream(), must(other.NewStream())(r)
		for _, n := range append([]int{3 * asynccopy.Smallest}, sizes...) {
			for _, nonBlocking := range []bool{false, true} {
				x := must(a.ToDevice(pageable(n, 1), true))(r)
				y := must(b.Copy(x, nonBlocking))(r)
				if y.Device() != other || y.Dtype() != x.Dtype() || fmt.Sprint(y.Shape()) != fmt.Sprint(x.Shape()) {
					r.Fatalf("a copy of %v is %v", x, y)
				}
				r.ok(a.ToDeviceInto(x, pageable(n, 2), true)) // after the copy
				r.holds(b, y, 1)
				r.ok(a.CopyInto(x, y, nonBlocking)) // and back
				r.ok(b.ToDeviceInto(y, pageable(n, 3), true))
				r.ok(y.Release())
				r.holds(a, x, 1)
				r.ok(x.Release())
			}
		}
	})
}

// TestSourceReleasedDuringACopyToAPeer: its memory is used again, on its own device, after the copy.
func TestSourceReleasedDuringACopyToAPeer(t *testing.T) {
	onPairs(t, func(r *rig, other *asynccopy.Device) {
		a, b := r.stream(), must(other.NewStream())(r)
		for range 10 {
			x := must(a.ToDevice(pageable(5000, 1), true))(r)
			y := must(b.Copy(x, true))(r)
			r.ok(x.Release())
			z := must(a.ToDevice(pageable(5000, 2), true))(r)
			r.ok(a.Synchronize(r.Context()))
			r.holds(b, y, 1)
			r.ok(y.Release())
			r.ok(z.Release())
		}
	})
}

// TestPeerClosedDuringACopy: each device may be closed while the other copies from it, or to it.
func TestPeerClosedDuringACopy(t *testing.T) {
	for _, closeSource := range []bool{true, false} {
		onPairs(t, func(r *rig, other *asynccopy.Device) {
			a, b := r.stream(), must(other.NewStream())(r)
			x := must(a.ToDevice(pageable(5000, 1), true))(r)
			y := must(b.Copy(x, true))(r)
			if !closeSource {
				r.ok(other.Close())
				r.ok(a.ToDeviceInto(x, pageable(5000, 2), true))
				r.holds(a, x, 2)
				r.ok(x.Release())
				_, err := b.Copy(x, true)
				if !errors.Is(err, asynccopy.ErrClosed) {
					r.Errorf("a copy to a closed device: %v", err)
				}
				return
			}
			r.ok(r.dev.Close())
			r.holds(b, y, 1)
			_, err := b.Copy(x, true)
			if !errors.Is(err, asynccopy.ErrClosed) {
				r.Errorf("a copy from a closed device: %v", err)
			}
			r.ok(y.Release())
		})
	}
}

// TestStreamWaitsForAnEventOfAPeer on the device where that is possible.
func TestStreamWaitsForAnEventOfAPeer(t *testing.T) {
	onPairs(t, func(r *rig, other *asynccopy.Device) {
		a, b := r.stream(), must(other.NewStream())(r)
		for range 5 {
			x := must(a.ToDevice(pageable(1000, 1), true))(r)
			into := r.pinned(1000, 2)
			arrived := must(a.ToHostInto(into, x, true))(r)
			r.ok(b.Wait(arrived))
			r.ok(b.Synchronize(r.Context()))
			r.is(into, 1)
			if done, err := arrived.Done(); !done || err != nil {
				r.Errorf("Done() = %v, %v after a stream that waited for it", done, err)
			}
			r.ok(x.Release())
			r.release(into)
		}
	})
}

func TestBadCopies(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Devices: 2}))
	other := r.second(r.drv, 1)
	s := r.stream()
	foreign := must(must(other.NewStream())(t).Empty(tensor.Float32, 4))(t)
	x := must(s.Empty(tensor.Float32, 2, 2))(t)
	flat, ints := must(s.Empty(tensor.Float32, 4))(t), must(s.Empty(tensor.Int32, 2, 2))(t)
	overlapping := must(x.Part(4, tensor.Float32, 2))(t)
	two := must(x.Part(0, tensor.Float32, 2))(t)
	for name, c := range map[string]struct {
		dst, x *asynccopy.Tensor
		words  []string
	}{
		"no dst":             {nil, x, []string{"tensor is nil"}},
		"no x":               {x, nil, []string{"x is nil"}},
		"shape":              {flat, x, []string{"(4)", "(2, 2)"}},
		"dtype":              {ints, x, []string{"int32", "float32"}},
		"itself":             {x, x, []string{"overlap"}},
		"overlapping":        {two, overlapping, []string{"overlap"}},
		"dst is on the peer": {foreign, flat, []string{"device 0", "device 1"}},
	} {
		refused(t, name, s.CopyInto(c.dst, c.x, true), append(c.words, "CopyInto")...)
	}
	_, err := s.Copy(nil, true)
	refused(t, "Copy of nil", err, "Copy: ", "nil")
	r.ok(flat.Release())
	_, err = s.Copy(flat, true)
	refused(t, "Copy of a released tensor", err, "Copy: ", "released")
	for _, x := range []*asynccopy.Tensor{x, ints, overlapping, two, foreign} {
		r.ok(x.Release())
	}
	if n := r.dev.Stats().Tensors; n != 0 {
		t.Errorf("refused calls left %d tensors", n)
	}
}

// TestEveryCallOfACopyBetweenDevicesFails, one after the other. Both devices stay usable, and nothing is left.
func TestEveryCallOfACopyBetweenDevicesFails(t *testing.T) {
	leak.Check(t)
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%v", apart), func(t *testing.T) {
			reached := true
			for nth := 1; reached; nth++ {
				faulty := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{Host: locking{}, Devices: 2, Apart: apart})))
				r := &rig{TB: t, drv: faulty}
				r.start()
				other := must(asynccopy.OpenDriver(faulty, 1))(t)
				other.SetEngine(r.engine)
				a, b := r.stream(), must(other.NewStream())(t)
				x := must(a.ToDevice(pageable(3*asynccopy.Smallest, 1), false))(t)
				before := faulty.Calls("")
				faulty.FailNth("", nth, errInjected)
				y, err := b.Copy(x, true)
				errs := []error{err}
				if err == nil {
					errs = append(errs, y.Wait(t.Context()), a.CopyInto(x, y, true), y.Release(), x.Wait(t.Context()))
				}
				reached = faulty.Calls("")-before >= nth
				faulty.Heal()
				for _, err := range errs {
					if err != nil && !errors.Is(err, errInjected) {
						t.Errorf("call %d fails: %v, which is not the injected error", nth, err)
					}
				}
				r.dev.Synchronize(t.Context()) // and what was postponed is told
				other.Synchronize(t.Context())
				z := must(b.Copy(must(a.ToDevice(pageable(100, 4), true))(t), true))(t)
				r.holds(b, z, 4)
				other.Close()
				r.dev.Close()
				if st := other.Stats(); st.Events != 0 || st.Lent.Current != 0 || st.Cached != 0 {
					t.Errorf("call %d: left %+v", nth, st)
				}
				r.checkEmpty()
				if nth > 200 {
					t.Fatal("the copies have no end")
				}
			}
		})
	}
}

// TestGoroutinesOnTwoDevices: 64 goroutines copy in, across and out on two devices, each checking its own.
func TestGoroutinesOnTwoDevices(t *testing.T) {
	onPairs(t, func(r *rig, other *asynccopy.Device) {
		var streams [2][4]*asynccopy.Stream
		for i := range 4 {
			streams[0][i], streams[1][i] = r.stream(), must(other.NewStream())(r)
		}
		var all sync.WaitGroup
		for g := range 64 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 2))
				for i := range 3 {
					from := rng.IntN(2)
					if err := across(r, streams[from][rng.IntN(4)], streams[1-from][rng.IntN(4)], 1+rng.IntN(9000), uint64(g*16+i)); err != nil {
						r.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}

// across sends n bytes over two devices and compares what comes back.
func across(r *rig, a, b *asynccopy.Stream, n int, seed uint64) error {
	x, err := a.ToDevice(pageable(n, seed), true)
	if err != nil {
		return err
	}
	y, err := b.Copy(x, true)
	if err != nil {
		return err
	}
	into := pageable(n, seed+1)
	if _, err := b.ToHostInto(into, y, false); err != nil {
		return err
	}
	if !holdsPattern(into.Raw, seed) {
		return fmt.Errorf("%d bytes of pattern %d came back as others", n, seed)
	}
	return errors.Join(x.Release(), y.Release())
}
