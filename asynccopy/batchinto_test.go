package asynccopy_test

// This file tests copies of many tensors with one event, into tensors that are there.

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// TestToDeviceBatchInto: every kind of source gets to its place, and the pinned ones share an event.
func TestToDeviceBatchInto(t *testing.T) {
	onEach(t, func(r *rig) {
		s, reader := r.stream(), r.stream()
		for _, nonBlocking := range []bool{false, true} {
			sizes := []int{1, 4096, 0, 70_000, 300, 200_000}
			var ts []*tensor.Dense
			var xs []*asynccopy.Tensor
			for i, n := range sizes {
				src := pageable(n, uint64(i))
				if i != 4 {
					src = r.pinned(n, uint64(i))
				}
				ts, xs = append(ts, src), append(xs, must(s.Empty(tensor.Uint8, n))(r))
			}
			for range 3 {
				for _, x := range xs {
					r.ok(x.Use(reader)) // so that the copies have something to wait for
				}
				r.ok(s.ToDeviceBatchInto(xs, ts, nonBlocking))
				for i, x := range xs {
					r.holds(reader, x, uint64(i))
				}
			}
			r.ok(s.ToDeviceBatchInto(xs, ts, nonBlocking))
			for i, x := range xs {
				if shares := x.Ready() == xs[0].Ready(); shares != (i != 4) {
					r.Errorf("tensor %d: shares the event of the first: %v", i, shares)
				}
			}
			for i, x := range xs {
				r.ok(x.Release())
				if i != 4 {
					r.release(ts[i])
				}
			}
		}
		r.ok(s.ToDeviceBatchInto(nil, nil, false))
	})
}

// TestToDeviceBatchIntoOneTensorTwice: the last copy into it stays, whichever of the sources are page-locked.
func TestToDeviceBatchIntoOneTensorTwice(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		x := must(s.Empty(tensor.Uint8, 4096))(r)
		part := must(x.Part(0, tensor.Uint8, 4096))(r)
		free, pinned := pageable(4096, 1), r.pinned(4096, 2)
		for _, dst := range [][]*asynccopy.Tensor{{x, x}, {x, part}, {part, x}} {
			r.ok(s.ToDeviceBatchInto(dst, []*tensor.Dense{free, pinned}, true))
			r.holds(s, x, 2)
			r.ok(s.ToDeviceBatchInto(dst, []*tensor.Dense{pinned, free}, true))
			r.holds(s, x, 1)
		}
		r.ok(x.Release())
		r.ok(part.Release())
		r.release(pinned)
	})
}

// TestToDeviceBatchIntoRefuses: an error names the place, and nothing is held afterwards.
func TestToDeviceBatchIntoRefuses(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	p, x := r.pinned(64, 1), must(s.Empty(tensor.Uint8, 64))(r)
	gone := must(s.Empty(tensor.Uint8, 64))(r)
	r.ok(gone.Release())
	for want, err := range map[string]error{
		"dst has length 1, ts 2: want the same": s.ToDeviceBatchInto([]*asynccopy.Tensor{x}, []*tensor.Dense{p, p}, true),
		"ts[1]: it is nil":                      s.ToDeviceBatchInto([]*asynccopy.Tensor{x, x}, []*tensor.Dense{p, nil}, true),
		"dst[1]: the tensor was":                s.ToDeviceBatchInto([]*asynccopy.Tensor{x, gone}, []*tensor.Dense{p, p}, true),
		"at place 1: dst":                       s.ToDeviceBatchInto([]*asynccopy.Tensor{x, x}, []*tensor.Dense{p, tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(8, 8))}, true),
		"dst[0]: ":                              s.ToDeviceBatchInto([]*asynccopy.Tensor{nil}, []*tensor.Dense{p}, true),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "asynccopy: ToDeviceBatchInto: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r.ok(s.ToDeviceBatchInto(nil, nil, true))
	r.ok(s.Close())
	if err := s.ToDeviceBatchInto(nil, nil, true); !errors.Is(err, asynccopy.ErrClosed) {
		t.Errorf("nothing, on a closed stream: %v", err)
	}
	r.ok(x.Release())
	r.release(p)
}

// Tensors that share an event share its error, which is told once.
func TestToDeviceBatchIntoTellsOnce(t *testing.T) {
	faulty := drivertest.NewFaulty(soft.New(soft.Config{Host: locking{}, Late: true}))
	r := newRig(t, faulty)
	s, src := r.stream(), r.pinned(1000, 1)
	xs := make([]*asynccopy.Tensor, 3)
	for i := range xs {
		xs[i] = must(s.Empty(tensor.Uint8, 1000))(t)
	}
	faulty.FailAll("SyncEvent")
	faulty.FailAll("SyncStream")
	err := s.ToDeviceBatchInto(xs, []*tensor.Dense{src, src, src}, false)
	refused(t, "ToDeviceBatchInto", err, "injected (999)")
	faulty.Heal()
	for s.Synchronize(t.Context()) != nil { // tells of what failed meanwhile
	}
	for _, x := range xs {
		r.holds(s, x, 1)
		r.ok(x.Release())
	}
	r.release(src)
}
