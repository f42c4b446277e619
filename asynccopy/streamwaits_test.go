package asynccopy_test

// This file tests that a stream is not told twice to wait for the same, and always once.

import (
	"context"
	"errors"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// TestWaitsOnceForOneEvent: tensors that came with one copy, or before one that is waited for, cost a reader one wait.
func TestWaitsOnceForOneEvent(t *testing.T) {
	faulty := drivertest.NewFaulty(soft.New(soft.Config{Host: locking{}, Late: true}))
	r := newRig(t, faulty)
	in, compute := r.stream(), r.stream()
	var xs []*asynccopy.Tensor
	var ts []*tensor.Dense
	for i := range 8 {
		xs, ts = append(xs, must(in.Empty(tensor.Uint8, 4096))(r)), append(ts, r.pinned(4096, uint64(i)))
	}
	waits := func(use func()) int {
		before := faulty.Calls("WaitEvent")
		use()
		return faulty.Calls("WaitEvent") - before
	}
	r.ok(in.ToDeviceBatchInto(xs, ts, true))
	if n := waits(func() {
		for _, x := range xs {
			r.ok(x.Use(compute))
		}
	}); n != 1 {
		t.Errorf("%d waits for one event, want 1", n)
	}
	for _, x := range xs {
		x.EndUse()
	}
	if n := waits(func() { r.ok(in.ToDeviceBatchInto(xs, ts, true)) }); n != 1 {
		t.Errorf("%d waits for uses that had all ended, want 1", n)
	}
	for i := range xs {
		r.ok(in.ToDeviceInto(xs[i], ts[i], true))
	}
	if n := waits(func() {
		r.ok(xs[7].Use(compute))
		for _, x := range xs {
			r.ok(x.Use(compute))
		}
	}); n != 1 {
		t.Errorf("%d waits for copies before one that was waited for, want 1", n)
	}
	if n := waits(func() { // uses that have not ended
		for i := range xs {
			r.ok(in.ToDeviceInto(xs[i], ts[i], true))
		}
	}); n != 8 {
		t.Errorf("%d waits for uses that go on, want 8", n)
	}
	for i := range xs {
		r.ok(xs[i].Release())
		r.release(ts[i])
	}
}

// TestEndUseKeepsTheOrder: a copy into memory that a kernel uses follows the kernel, also when another copy has waited
// for the kernel before that one. More streams take part than a stream remembers.
func TestEndUseKeepsTheOrder(t *testing.T) {
	onEach(t, func(r *rig) {
		const n, sets = 16 << 10, 3
		f, unload := r.kernel("axpy")
		in, out := r.stream(), r.stream()
		var computes []*asynccopy.Stream
		for range 6 {
			computes = append(computes, r.stream())
		}
		zeros, ones, host := must(r.engine.New(tensor.Float32, n))(r), must(r.engine.New(tensor.Float32, n))(r), must(r.engine.New(tensor.Float32, n))(r)
		r.ok(ones.Memset(float32(1)))
		var xs, ys [sets]*asynccopy.Tensor
		for i := range sets {
			xs[i], ys[i] = must(in.ToDevice(ones, true))(r), must(in.ToDevice(zeros, true))(r)
		}
		for round := range 60 {
			compute, x, y := computes[round*5%7%6], xs[round%sets], ys[round%sets]
			r.ok(in.ToDeviceBatchInto([]*asynccopy.Tensor{x, y}, []*tensor.Dense{ones, zeros}, true))
			for range 3 {
				r.axpy(compute, f, y, x, 1) // y is 3 in the end
			}
			x.EndUse()
			r.ok(y.Used(compute))
			arrived := must(out.ToHostInto(host, y, true))(r)
			r.ok(in.ToDeviceInto(x, zeros, true)) // after the kernels, which would add less
			r.ok(arrived.Wait(context.Background()))
			for i, got := range host.Float32s() {
				if got != 3 {
					r.Fatalf("round %d: value %d is %v, want 3", round, i, got)
				}
			}
		}
		for i := range sets {
			r.ok(errors.Join(xs[i].Release(), ys[i].Release()))
		}
		r.ok(in.Synchronize(context.Background()))
		for _, h := range []*tensor.Dense{zeros, ones, host} {
			r.release(h)
		}
		unload()
	})
}
