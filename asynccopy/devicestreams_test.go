package asynccopy_test

// This file tests the streams that a device has, and waiting for all of them.

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
)

// priorities is a driver that notes the priorities of the streams made.
type priorities struct {
	driver.Driver
	seen *[]int
}

func (p priorities) Open(ordinal int) (driver.Device, error) {
	d, err := p.Driver.Open(ordinal)
	return prioritiesDevice{d, p.seen}, err
}

type prioritiesDevice struct {
	driver.Device
	seen *[]int
}

func (d prioritiesDevice) NewStream(priority int) (driver.Stream, error) {
	*d.seen = append(*d.seen, priority)
	return d.Device.NewStream(priority)
}

func TestPriorities(t *testing.T) {
	var seen []int
	r := newRig(t, priorities{soft.New(soft.Config{Host: locking{}}), &seen})
	seen = nil
	r.stream()
	must(r.dev.NewStreamWithPriority(-1))(t)
	must(r.dev.NewStreamWithPriority(3))(t)
	if len(seen) != 3 || seen[0] != 0 || seen[1] != -1 || seen[2] != 3 {
		t.Errorf("the driver was asked for priorities %v, want [0 -1 3]", seen)
	}
	var none *asynccopy.Device
	_, err := none.NewStreamWithPriority(0)
	refused(t, "nil", err, "NewStreamWithPriority", "nil")
}

func TestDefaultStreamIsOne(t *testing.T) {
	onEach(t, func(r *rig) {
		var all sync.WaitGroup
		var got [8]*asynccopy.Stream
		for i := range got {
			all.Go(func() { got[i], _ = r.dev.Default() })
		}
		all.Wait()
		for _, s := range got {
			if s == nil || s != got[0] {
				r.Fatalf("Default gave %v and %v", s, got[0])
			}
		}
		s := got[0]
		r.ok(s.Close()) // does nothing
		x := must(s.ToDevice(pageable(100, 1), true))(r)
		r.holds(s, x, 1)
		r.ok(x.Release())
		if n := r.dev.Stats().Streams; n != 1 {
			r.Errorf("%d streams are open", n)
		}
		r.ok(r.dev.Close())
		if _, err := s.Record(); !errors.Is(err, asynccopy.ErrClosed) {
			r.Errorf("Record after the device was closed: %v", err)
		}
	})
	var none *asynccopy.Device
	_, err := none.Default()
	refused(t, "nil", err, "Default", "nil")
}

func TestDeviceSynchronize(t *testing.T) {
	onEach(t, func(r *rig) {
		src := pageable(longest(), 1)
		var xs []*asynccopy.Tensor
		for range 3 {
			xs = append(xs, must(r.stream().ToDevice(src, true))(r))
		}
		into := pageable(longest(), 2)
		e := must(must(r.dev.Default())(r).ToHostInto(into, xs[0], true))(r)
		r.ok(r.stream().Close())
		r.ok(r.dev.Synchronize(r.Context()))
		r.is(into, 1)
		for _, e := range []*asynccopy.Event{e, xs[0].Ready(), xs[1].Ready(), xs[2].Ready()} {
			if done, err := e.Done(); !done || err != nil {
				r.Errorf("Done() = %v, %v after Synchronize", done, err)
			}
		}
		for _, x := range xs {
			r.ok(x.Release())
		}
		r.ok(r.dev.Close())
		if err := r.dev.Synchronize(r.Context()); !errors.Is(err, asynccopy.ErrClosed) {
			r.Errorf("of a closed device: %v", err)
		}
	})
}

func TestDeviceSynchronizeEndsWithItsContext(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(op soft.Op) time.Duration {
		if op.Call == "CopyHtoD" {
			<-hold
		}
		return 0
	}}))
	s := r.stream()
	p := r.pinned(10, 1)
	x := must(s.ToDevice(p, true))(t)
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if err := r.dev.Synchronize(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Synchronize: %v, want the context's error", err)
	}
	close(hold)
	r.ok(r.dev.Synchronize(t.Context()))
	r.ok(x.Release())
	r.release(p)
	var none *asynccopy.Device
	refused(t, "nil", none.Synchronize(t.Context()), "Synchronize", "nil")
	var noCtx context.Context
	refused(t, "nil ctx", r.dev.Synchronize(noCtx), "Synchronize", "ctx")
}
