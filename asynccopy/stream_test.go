package asynccopy_test

// This file tests the order of work: on one stream, across streams, and against other code's work.

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// TestTensorOnAnotherStream: whoever uses a Tensor elsewhere gets what was copied, without waiting for it.
func TestTensorOnAnotherStream(t *testing.T) {
	onEach(t, func(r *rig) {
		a, b := r.stream(), r.stream()
		for _, n := range []int{1000, 3 << 20} {
			p := r.pinned(n, 1)
			for _, src := range []*tensor.Dense{p, pageable(n, 1)} {
				x := must(a.ToDevice(src, true))(r)
				r.holds(b, x, 1)
				// An overwrite on b follows a's reads, and a's read follows the overwrite.
				before := must(a.ToHost(x, true))(r)
				beforeInto := pageable(n, 7)
				landed := must(a.ToHostInto(beforeInto, x, true))(r)
				r.ok(b.ToDeviceInto(x, pageable(n, 2), true))
				after := must(a.ToHost(x, true))(r)
				r.ok(b.Synchronize(context.Background()))
				got := must(before.Wait(r.Context()))(r)
				r.is(got, 1)
				r.release(got)
				got = must(after.Wait(r.Context()))(r)
				r.is(got, 2)
				r.release(got)
				r.ok(landed.Wait(r.Context()))
				r.is(beforeInto, 1)
				r.ok(x.Release())
			}
			r.release(p)
		}
	})
}

// TestStagedCopiesAreInOrder mixes copies that goroutines issue with copies that the call issues.
func TestStagedCopiesAreInOrder(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		const n = 2 << 20
		x := must(s.Empty(tensor.Uint8, n))(r)
		p := r.pinned(n, 3)
		for range 3 {
			r.ok(s.ToDeviceInto(x, pageable(n, 1), true))
			one := must(s.ToHost(x, true))(r)
			r.ok(s.ToDeviceInto(x, pageable(n, 2), true))
			r.ok(s.ToDeviceInto(x, p, true))
			three := pageable(n, 0)
			e := must(s.ToHostInto(three, x, true))(r)
			r.ok(s.ToDeviceInto(x, pageable(n, 4), true))
			four := must(s.ToHost(x, true))(r)
			for seed, down := range map[uint64]*asynccopy.Download{1: one, 4: four} {
				got := must(down.Wait(r.Context()))(r)
				r.is(got, seed)
				r.release(got)
			}
			r.ok(e.Wait(r.Context()))
			r.is(three, 3)
		}
		r.ok(x.Release())
		r.release(p)
	})
}

func TestLongStagedCopiesAreInOrder(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		n := longest()
		x := must(s.Empty(tensor.Uint8, n))(r)
		first, second := pageable(n, 1), pageable(n, 2)
		for range 3 {
			r.ok(s.ToDeviceInto(x, first, true))
			r.ok(s.ToDeviceInto(x, second, true))
			one, two := pageable(n, 0), pageable(n, 0)
			must(s.ToHostInto(one, x, true))(r)
			r.ok(s.ToDeviceInto(x, first, true))
			must(s.ToHostInto(two, x, true))(r)
			r.ok(s.Synchronize(r.Context()))
			if !bytes.Equal(two.Raw, first.Raw) || !bytes.Equal(one.Raw, second.Raw) {
				r.Error("Synchronize returned before the copies had landed, or they are out of order")
			}
		}
		r.ok(x.Release())
	})
}

// TestStagesTakeTurns: a copy that is issued bit by bit, because the device does nothing, comes before the
// one started after it.
func TestStagesTakeTurns(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(soft.Op) time.Duration { <-hold; return 0 }}))
	s := r.stream()
	n := longest()
	x := must(s.Empty(tensor.Uint8, n))(t)
	first, second, got := pageable(n, 1), pageable(n, 2), pageable(n, 0)
	r.ok(s.ToDeviceInto(x, first, true))
	r.ok(s.ToDeviceInto(x, second, true))
	e := must(s.ToHostInto(got, x, true))(t)
	time.Sleep(10 * time.Millisecond) // for the second to go ahead, if it could
	close(hold)
	r.ok(e.Wait(t.Context()))
	r.is(got, 2)
	r.ok(x.Release())
}

// foreign is other code's access to the device, as a kernel launch would be.
func (r *rig) foreign() driver.Device {
	r.Helper()
	d := must(r.drv.Open(0))(r)
	r.Cleanup(func() {
		if err := d.Close(); err != nil {
			r.Error(err)
		}
	})
	return d
}

// TestUse: copies and frees on other streams follow foreign work, and it follows the copies before.
func TestUse(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 1 << 20
		other := r.foreign()
		a, b := r.stream(), r.stream()
		fill := func(x *asynccopy.Tensor, value byte) {
			r.ok(other.Memset(driver.DevicePtr(x.DevicePtr()), value, n, driver.Stream(b.Handle()), 0))
		}
		for range 5 {
			x := must(a.ToDevice(pageable(n, 1), true))(r)
			r.ok(x.Use(b))
			fill(x, 7)
			got := must(must(a.ToHost(x, true))(r).Wait(r.Context()))(r)
			if got.Uint8s()[0] != 7 || got.Uint8s()[n-1] != 7 {
				r.Fatalf("a copy on another stream did not follow the foreign work: %d", got.Uint8s()[0])
			}
			r.release(got)
			fill(x, 8) // the use goes on
			r.ok(a.ToDeviceInto(x, pageable(n, 2), true))
			r.ok(b.Synchronize(context.Background()))
			r.holds(a, x, 2)
			r.ok(x.Use(b))
			fill(x, 9)
			r.ok(x.Release()) // freed behind the fill: freeing it before would be an illegal address
		}
		r.ok(a.Synchronize(context.Background()))
		r.ok(b.Synchronize(context.Background()))
	})
}

// TestUseBesideAStage: a stream that other code uses a tensor on copies it too, bit by bit. Whoever writes next
// must follow all of it.
func TestUseBesideAStage(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(op soft.Op) time.Duration {
		if op.Call == "CopyDtoH" {
			<-hold
			return time.Millisecond
		}
		return 0
	}}))
	a, b := r.stream(), r.stream()
	n := longest()
	x := must(a.ToDevice(pageable(n, 1), false))(r)
	next := r.pinned(n, 2)
	r.ok(x.Use(b))
	into := pageable(n, 0)
	e := must(b.ToHostInto(into, x, true))(r)
	written := make(chan error)
	go func() { written <- a.ToDeviceInto(x, next, true) }()
	time.Sleep(10 * time.Millisecond) // for it to go ahead, if it could
	close(hold)
	r.ok(<-written)
	r.ok(e.Wait(t.Context()))
	r.is(into, 1)
	r.holds(b, x, 2)
	r.release(next)
	r.ok(x.Release())
}

func TestWaitMakesAStreamFollow(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 1 << 20
		other := r.foreign()
		a, b := r.stream(), r.stream()
		x := must(a.ToDevice(pageable(n, 1), false))(r)
		for range 5 {
			fill := func(s *asynccopy.Stream, value byte) {
				r.ok(other.Memset(driver.DevicePtr(x.DevicePtr()), value, n, driver.Stream(s.Handle()), 0))
			}
			fill(a, 3)
			r.ok(b.Wait(must(a.Record())(r)))
			fill(b, 4)
			r.ok(a.Wait(must(b.Record())(r)))
			got := must(must(a.ToHost(x, true))(r).Wait(r.Context()))(r)
			if got.Uint8s()[n/2] != 4 {
				r.Fatalf("got %d, want 4", got.Uint8s()[n/2])
			}
			r.release(got)
		}
		r.ok(x.Release())
	})
}

// TestWaitForStagedCopy: an event of a copy that goroutines still work on orders other streams too.
func TestWaitForStagedCopy(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 3 << 20
		other := r.foreign()
		a, b := r.stream(), r.stream()
		x := must(a.Empty(tensor.Uint8, n))(r)
		for range 3 {
			r.ok(a.ToDeviceInto(x, pageable(n, 1), true))
			into := pageable(n, 0)
			e := must(a.ToHostInto(into, x, true))(r)
			r.ok(b.Wait(x.Ready()))
			r.ok(b.Wait(e))
			r.ok(other.Memset(driver.DevicePtr(x.DevicePtr()), 5, n, driver.Stream(b.Handle()), 0))
			r.ok(b.Synchronize(r.Context()))
			r.ok(e.Wait(r.Context()))
			r.is(into, 1)
		}
		r.ok(x.Release())
	})
}

func TestWaitForAnotherDevice(t *testing.T) {
	one := newRig(t, soft.New(soft.Config{Host: locking{}, Late: true}))
	two := must(asynccopy.OpenSoft())(t)
	defer two.Close()
	s, other := one.stream(), must(two.NewStream())(t)
	x := must(s.ToDevice(pageable(10, 1), true))(t)
	one.ok(other.Wait(x.Ready()))
	one.ok(other.Synchronize(t.Context()))
	if done, err := x.Ready().Done(); !done || err != nil {
		t.Errorf("the other device's stream went on before the event: %v, %v", done, err)
	}
	one.ok(x.Release())
}

// TestIssuingDoesNotWait: field report pytorch#20411. The device does nothing until the test lets it.
func TestIssuingDoesNotWait(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(soft.Op) time.Duration { <-hold; return 0 }}))
	a, b := r.stream(), r.stream()
	p := r.pinned(1<<20, 1)
	const most = 2 * asynccopy.Largest // what a copy issues without waiting for the device, on one core
	x := must(a.ToDevice(p, true))(r)
	y := must(a.ToDevice(pageable(100, 1), true))(r)
	z := must(a.ToDevice(pageable(most, 1), true))(r)
	down := must(b.ToHost(x, true))(r)
	into := pageable(most, 0)
	e := must(b.ToHostInto(into, z, true))(r)
	r.ok(b.ToDeviceInto(x, p, true))
	r.ok(a.Wait(e))
	r.ok(y.Release())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for what, err := range map[string]error{
		"Tensor.Wait": x.Wait(ctx), "Event.Wait": e.Wait(ctx), "Synchronize": a.Synchronize(ctx),
	} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s on a device that does nothing: %v, want DeadlineExceeded", what, err)
		}
	}
	if _, err := down.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Download.Wait: %v, want DeadlineExceeded", err)
	}
	if done, err := x.Ready().Done(); done || err != nil {
		t.Errorf("Done() = %v, %v on a device that does nothing", done, err)
	}
	close(hold)
	got := must(down.Wait(t.Context()))(t)
	r.is(got, 1)
	r.ok(e.Wait(t.Context()))
	r.is(into, 1)
	r.release(got)
	r.ok(x.Release())
	r.ok(z.Release())
	r.release(p)
}

func TestStreamCloseKeepsTensors(t *testing.T) {
	onEach(t, func(r *rig) {
		a, b := r.stream(), r.stream()
		x := must(a.ToDevice(pageable(2<<20, 1), true))(r)
		y := must(a.Empty(tensor.Uint8, 100))(r)
		r.ok(x.Use(a))
		r.ok(a.Close())
		r.ok(a.Close())
		r.holds(b, x, 1)
		r.ok(b.ToDeviceInto(x, pageable(2<<20, 2), true))
		r.ok(x.Release())
		r.ok(y.Release())
		if _, err := a.Record(); !errors.Is(err, asynccopy.ErrClosed) {
			r.Errorf("Record on a closed stream: %v, want ErrClosed", err)
		}
	})
}

// TestEventsComeBack drops events by the thousand: neither driver events nor listed ones may grow with them.
func TestEventsComeBack(t *testing.T) {
	var made atomic.Int64
	r := newRig(t, counting{soft.New(soft.Config{Host: locking{}}), &made})
	s := r.stream()
	p := r.pinned(64, 1)
	x := must(s.Empty(tensor.Uint8, 64))(r)
	for range 5000 {
		r.ok(s.ToDeviceInto(x, p, true))
		must(s.Record())(r)
		if made.Load() < 1000 {
			continue
		}
		r.ok(s.Synchronize(context.Background())) // a device that is far behind has many under way
	}
	if made.Load() > 1100 {
		t.Errorf("10000 events took %d of the driver's", made.Load())
	}
	r.ok(s.Synchronize(context.Background()))
	if n := r.dev.Stats().Events; n != 0 {
		t.Errorf("%d events are listed after Synchronize", n)
	}
	r.ok(x.Release())
	r.release(p)
}

// counting counts the events that a driver makes.
type counting struct {
	driver.Driver
	made *atomic.Int64
}

func (c counting) Open(ordinal int) (driver.Device, error) {
	d, err := c.Driver.Open(ordinal)
	return countingDevice{d, c.made}, err
}

type countingDevice struct {
	driver.Device
	made *atomic.Int64
}

func (c countingDevice) NewEvent() (driver.Event, error) {
	c.made.Add(1)
	return c.Device.NewEvent()
}
