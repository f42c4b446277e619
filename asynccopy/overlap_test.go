package asynccopy_test

// This file shows that copies in, kernels and copies out on three streams run at the same time.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// pipeline copies batches in, has a kernel work on each, and copies the results out, on three streams. As many
// batches as it has tensors for are on the device at a time.
type pipeline struct {
	in, compute, out *asynccopy.Stream
	x, y             []*asynccopy.Tensor
	kernel           func(y, x *asynccopy.Tensor) error // issues to compute
}

// step issues everything for batch i, and waits for nothing.
func (p *pipeline) step(i int, src, dst *tensor.Dense) error {
	x, y := p.x[i%len(p.x)], p.y[i%len(p.y)]
	if err := p.in.ToDeviceInto(x, src, true); err != nil { // after the kernel that used x last
		return err
	}
	if err := errors.Join(x.Use(p.compute), y.Use(p.compute)); err != nil { // after the copies of x in and of y out
		return err
	}
	if err := p.kernel(y, x); err != nil {
		return err
	}
	if err := errors.Join(x.Used(p.compute), y.Used(p.compute)); err != nil {
		return err
	}
	_, err := p.out.ToHostInto(dst, y, true) // after the kernel
	return err
}

func (p *pipeline) synchronize() error {
	ctx := context.Background()
	return errors.Join(p.in.Synchronize(ctx), p.compute.Synchronize(ctx), p.out.Synchronize(ctx))
}

func (p *pipeline) release() error {
	var errs []error
	for i := range p.x {
		errs = append(errs, p.x[i].Release(), p.y[i].Release())
	}
	return errors.Join(errs...)
}

// newPipeline makes a pipeline for batches of n float32 values.
func newPipeline(t testing.TB, dev *asynccopy.Device, batches, n int) *pipeline {
	t.Helper()
	p := &pipeline{in: must(dev.NewStream())(t), compute: must(dev.NewStream())(t), out: must(dev.NewStream())(t)}
	for range batches {
		// Each on the stream that writes it first, which then has nothing to wait for.
		p.x = append(p.x, must(p.in.Empty(tensor.Float32, n))(t))
		p.y = append(p.y, must(p.compute.Empty(tensor.Float32, n))(t))
	}
	return p
}

// TestOverlap runs in the bubble's time, where the device takes exactly as long as it is told to.
func TestOverlap(t *testing.T) {
	const batches = 25
	for _, took := range []struct{ in, kernel, out time.Duration }{{10, 10, 10}, {10, 8, 3}, {3, 10, 8}, {2, 3, 10}} {
		t.Run(fmt.Sprintf("in=%d/kernel=%d/out=%d", took.in, took.kernel, took.out), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(op soft.Op) time.Duration {
					return time.Millisecond * map[string]time.Duration{"CopyHtoD": took.in, "Launch": took.kernel, "CopyDtoH": took.out}[op.Call]
				}}))
				const n = 1000
				f, unload := r.kernel("axpy")
				p := newPipeline(t, r.dev, 2, n)
				p.kernel = func(y, x *asynccopy.Tensor) error {
					args := []uint64{uint64(y.DevicePtr()), uint64(x.DevicePtr()), uint64(math.Float32bits(2)), n}
					return p.compute.Issue("axpy", func(dev driver.Device, s driver.Stream) error {
						return errors.Join(
							dev.Memset(driver.DevicePtr(args[0]), 0, 4*n, s, 0),
							dev.Launch(f, driver.Dim3{X: 4}, driver.Dim3{X: 256}, 0, s, args))
					})
				}
				var src, dst [batches]*tensor.Dense
				for i := range batches {
					src[i], dst[i] = must(r.engine.New(tensor.Float32, n))(r), must(r.engine.New(tensor.Float32, n))(r)
					r.ok(src[i].Memset(float32(i)))
				}
				start := time.Now()
				for i := range batches {
					r.ok(p.step(i, src[i], dst[i]))
				}
				if issued := time.Since(start); issued != 0 {
					t.Errorf("issuing took %v", issued)
				}
				r.ok(p.synchronize())
				total, longest := time.Since(start), batches*time.Millisecond*max(took.in, took.kernel, took.out)
				t.Logf("%v, the longest of the three alone %v: %.2f times", total, longest, float64(total)/float64(longest))
				if total > longest*11/10 {
					t.Errorf("took %v, more than 1.1 times %v", total, longest)
				}
				for i := range batches {
					for k, got := range dst[i].Float32s() {
						if got != float32(2*i) {
							t.Fatalf("batch %d: value %d is %v, want %v", i, k, got, 2*i)
						}
					}
					r.release(src[i])
					r.release(dst[i])
				}
				r.ok(p.release())
				unload()
				r.end() // in the bubble
			})
		})
	}
}

// TestReleaseOverlaps has a new tensor for each batch, released when its kernel was issued: the stream of the copies
// must not wait for the kernel to get memory for the next.
func TestReleaseOverlaps(t *testing.T) {
	const batches = 25
	for _, n := range []int{1000, 1 << 19} { // memory that is kept here, and the driver's
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("n=%d/used=%v", n, used), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(op soft.Op) time.Duration {
						return time.Millisecond * map[string]time.Duration{"CopyHtoD": 10, "Launch": 10}[op.Call]
					}}))
					f, unload := r.kernel("spin")
					in, compute := r.stream(), r.stream()
					src := must(r.engine.New(tensor.Float32, n))(r)
					start := time.Now()
					for range batches {
						x := must(in.ToDevice(src, true))(r)
						r.ok(x.Use(compute))
						r.ok(compute.Issue("spin", func(dev driver.Device, s driver.Stream) error {
							return dev.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, []uint64{0})
						}))
						if used {
							r.ok(x.Used(compute))
						}
						r.ok(x.Release())
					}
					r.ok(errors.Join(in.Synchronize(context.Background()), compute.Synchronize(context.Background())))
					if took, want := time.Since(start), (batches+1)*10*time.Millisecond; took != want {
						t.Errorf("took %v, want %v: the copies, and the last kernel", took, want)
					}
					r.release(src)
					unload()
					r.end()
				})
			})
		}
	}
}

func TestUsedArguments(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s, other := r.stream(), r.stream()
	x, gone := must(s.Empty(tensor.Uint8, 8))(r), must(s.Empty(tensor.Uint8, 8))(r)
	r.ok(errors.Join(gone.Use(s), gone.Release()))
	if err := gone.Used(s); !errors.Is(err, asynccopy.ErrReleased) {
		t.Errorf("Used of a released tensor: %v, want ErrReleased", err)
	}
	refuses := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), "asynccopy: Used: ") {
			t.Errorf("%s: %v, want an error of Used", what, err)
		}
	}
	refuses("of nothing", (*asynccopy.Tensor)(nil).Used(s))
	refuses("on nothing", x.Used(nil))
	refuses("before Use", x.Used(s))
	r.ok(x.Use(s))
	refuses("on another stream", x.Used(other))
	r.ok(x.Used(s))
	refuses("twice", x.Used(s))
	r.ok(x.Release())
}

// TestUsedOfSeveral: one event for all tensors that some work used, and an error where one of them is none.
func TestUsedOfSeveral(t *testing.T) {
	calls := drivertest.NewFaulty(soft.New(soft.Config{Host: locking{}}))
	r := newRig(t, calls)
	s := r.stream()
	x, y := must(s.Empty(tensor.Uint8, 8))(r), must(s.Empty(tensor.Uint8, 8))(r)
	r.ok(errors.Join(x.Use(s), y.Use(s)))
	before := calls.Calls("Record")
	r.ok(s.Used(x, y))
	if n := calls.Calls("Record") - before; n != 1 {
		t.Errorf("%d events are recorded, want 1", n)
	}
	if x.Ready() == nil || y.Ready() == nil || x.Ready() != y.Ready() {
		t.Error("the tensors are not ready by the same event")
	}
	r.ok(s.Used())
	r.ok(x.Use(s))
	if err := s.Used(x, y); err == nil || !strings.HasPrefix(err.Error(), "asynccopy: Used: ") {
		t.Errorf("one of two without Use: %v", err)
	}
	if err := x.Used(s); err == nil {
		t.Error("the use of the other has not ended")
	}
	r.ok(errors.Join(x.Release(), y.Release()))
}

// TestUsedKeepsTheOrder: what follows a kernel on another stream still follows it when Used has ended the use.
func TestUsedKeepsTheOrder(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 64 << 10
		f, unload := r.kernel("axpy")
		in, compute, out := r.stream(), r.stream(), r.stream()
		host, ones := must(r.engine.New(tensor.Float32, n))(r), must(r.engine.New(tensor.Float32, n))(r)
		r.ok(ones.Memset(float32(1)))
		x, y := must(in.ToDevice(ones, true))(r), must(in.ToDevice(host, true))(r) // y is 0
		for round := range 20 {
			r.axpy(compute, f, y, x, 1) // y is 1
			r.ok(errors.Join(x.Used(compute), y.Used(compute)))
			arrived, err := out.ToHostInto(host, y, true)
			r.ok(err)
			r.ok(arrived.Wait(context.Background()))
			for i, got := range host.Float32s() {
				if got != 1 {
					r.Fatalf("round %d: value %d is %v, want 1", round, i, got)
				}
			}
			r.ok(host.Memset(float32(0)))
			r.axpy(compute, f, y, x, 5)
			r.ok(errors.Join(x.Used(compute), y.Used(compute)))
			r.ok(in.ToDeviceInto(y, host, true)) // after the kernel, which would add to it
			r.ok(y.Wait(context.Background()))
		}
		r.ok(errors.Join(x.Release(), y.Release(), compute.Synchronize(context.Background())))
		r.release(host)
		r.release(ones)
		unload()
	})
}

// BenchmarkOverlap is the pipeline on the first device: 100 batches, of which four are on the device at a time, with a
// kernel that takes some part of what a copy takes. x-longest is the time of the whole over that of the longest of the
// three alone, measured just before. Copies both ways at once share the bus and are slower than one alone: x-limit is
// over the longest of the three with both copies at once, which no program can be faster than.
func BenchmarkOverlap(b *testing.B) {
	for _, n := range []int{1 << 20, 16 << 20} {
		for _, kernel := range []float64{0.5, 1, 1.5} {
			b.Run(fmt.Sprintf("%s/kernel=%vx", size(n), kernel), func(b *testing.B) { benchmarkOverlap(b, n/4, kernel) })
		}
	}
}

func benchmarkOverlap(b *testing.B, n int, kernel float64) {
	const onDevice = 4
	dev, _ := benchDevice(b)
	batches := 100
	if !dev.IsCUDA() { // where a kernel keeps a core busy
		batches = 10
	}
	m, err := dev.Driver().LoadModule(drivertest.Image)
	if err != nil {
		b.Fatal(err)
	}
	spin, err := dev.Driver().Function(m, "spin")
	if err != nil {
		b.Fatal(err)
	}
	p := newPipeline(b, dev, onDevice, n)
	var busy time.Duration
	p.kernel = func(y, x *asynccopy.Tensor) error {
		return p.compute.Issue("spin", func(dev driver.Device, s driver.Stream) error {
			return dev.Launch(spin, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, []uint64{uint64(busy)})
		})
	}
	in, out := must(pintensor.New(tensor.Float32, n))(b), must(pintensor.New(tensor.Float32, n))(b)
	defer func() { pintensor.Release(in); pintensor.Release(out) }()
	timed := func(issue ...func(x, y *asynccopy.Tensor) error) time.Duration {
		start := time.Now()
		for i := range batches {
			for _, issue := range issue {
				if err := issue(p.x[i%onDevice], p.y[i%onDevice]); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := p.synchronize(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	copyIn := func(x, _ *asynccopy.Tensor) error { return p.in.ToDeviceInto(x, in, true) }
	copyOut := func(_, y *asynccopy.Tensor) error { _, err := p.out.ToHostInto(out, y, true); return err }
	compute := func(x, y *asynccopy.Tensor) error { return p.kernel(y, x) }
	timed(copyIn, copyOut)
	b.ReportAllocs()
	var total, longest, limit time.Duration
	for b.Loop() {
		copies := max(timed(copyIn), timed(copyOut))
		busy = time.Duration(kernel * float64(copies) / float64(batches))
		computes, both := timed(compute), timed(copyIn, copyOut)
		start := time.Now()
		for i := range batches {
			if err := p.step(i, in, out); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.synchronize(); err != nil {
			b.Fatal(err)
		}
		total += time.Since(start)
		longest += max(copies, computes)
		limit += max(copies, computes, both)
	}
	b.ReportMetric(float64(total)/float64(longest), "x-longest")
	b.ReportMetric(float64(total)/float64(limit), "x-limit")
	b.ReportMetric(float64(4*n)*float64(batches)*float64(b.N)/total.Seconds()/1e9, "GB/s-each-way")
	if err := errors.Join(p.release(), p.synchronize(), dev.Driver().UnloadModule(m)); err != nil {
		b.Fatal(err)
	}
}
