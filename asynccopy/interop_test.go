package asynccopy_test

// This file tests work that other packages of this module issue.

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// kernel returns a kernel that every device has. unload is for when its launches have been awaited.
func (r *rig) kernel(name string) (f driver.Function, unload func()) {
	r.Helper()
	dev := r.dev.Driver()
	m := must(dev.LoadModule(drivertest.Image))(r)
	return must(dev.Function(m, name))(r), func() { r.Helper(); r.ok(dev.UnloadModule(m)) }
}

// axpy issues y += a*x.
func (r *rig) axpy(s *asynccopy.Stream, f driver.Function, y, x *asynccopy.Tensor, a float32) {
	r.Helper()
	r.ok(errors.Join(y.Use(s), x.Use(s)))
	n := y.Size()
	args := []uint64{uint64(y.DevicePtr()), uint64(x.DevicePtr()), uint64(math.Float32bits(a)), uint64(n)}
	r.ok(s.Issue("axpy", func(dev driver.Device, stream driver.Stream) error {
		return dev.Launch(f, driver.Dim3{X: uint32(n+255) / 256}, driver.Dim3{X: 256}, 0, stream, args)
	}))
}

// TestIssue has a kernel between copies of pageable memory, which are issued bit by bit, on three streams.
func TestIssue(t *testing.T) {
	onEach(t, func(r *rig) {
		n := longest() / 4
		f, unload := r.kernel("axpy")
		defer unload()
		in, compute, out := r.stream(), r.stream(), r.stream()
		hx, hy := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(n)), tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(n))
		for i, xs := 0, hx.Float32s(); i < n; i++ {
			xs[i] = float32(i % 1000)
		}
		x, y := must(in.ToDevice(hx, true))(r), must(in.ToDevice(hy, true))(r)
		r.axpy(compute, f, y, x, 2)
		r.axpy(compute, f, y, x, -1)
		r.ok(x.Release())
		_, err := out.ToHostInto(hy, y, false)
		r.ok(err)
		for i, got := range hy.Float32s() {
			if want := float32(i % 1000); got != want {
				r.Fatalf("value %d is %v, want %v", i, got, want)
			}
		}
		r.ok(y.Release())
	})
}

// TestIssueIsInTurn issues a fill to the stream of a copy that is issued bit by bit: it must not come in between.
func TestIssueIsInTurn(t *testing.T) {
	onEach(t, func(r *rig) {
		s, n := r.stream(), longest()
		x := must(s.Empty(tensor.Uint8, n))(r)
		p := driver.DevicePtr(x.DevicePtr()) // asked now, because it would wait for the copy later
		src := pageable(n, 1)
		for range 3 {
			r.ok(s.ToDeviceInto(x, src, true))
			r.ok(s.Issue("fill", func(dev driver.Device, stream driver.Stream) error {
				return dev.Memset(p, 7, int64(n), stream, 0)
			}))
			back := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(n))
			_, err := s.ToHostInto(back, x, false)
			r.ok(err)
			if i := slices.IndexFunc(back.Uint8s(), func(b byte) bool { return b != 7 }); i >= 0 {
				r.Fatalf("byte %d of %d is %d: the copy came after the fill", i, n, back.Uint8s()[i])
			}
		}
		r.ok(x.Release())
	})
}

func TestIssueFails(t *testing.T) {
	lost := &driver.Error{Call: "own", Code: driver.CodeLaunchFailure, Name: "CUDA_ERROR_LAUNCH_FAILED", Text: "it failed"}
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	if err := s.Issue("nothing", nil); err == nil {
		t.Error("issued nothing")
	}
	fail := func(err error) error {
		return s.Issue("failing", func(driver.Device, driver.Stream) error { return err })
	}
	if err := fail(drivertest.ErrInjected); !errors.Is(err, drivertest.ErrInjected) {
		t.Errorf("Issue: %v, want what the function returned", err)
	}
	r.ok(fail(nil))
	closed := r.stream()
	r.ok(closed.Close())
	if err := closed.Issue("late", func(driver.Device, driver.Stream) error { t.Error("called"); return nil }); !errors.Is(err, asynccopy.ErrClosed) {
		t.Errorf("Issue on a closed stream: %v, want ErrClosed", err)
	}
	if err := fail(lost); !errors.Is(err, error(lost)) {
		t.Errorf("Issue: %v, want the sticky error", err)
	}
	if _, err := s.Record(); !errors.Is(err, error(lost)) {
		t.Errorf("after a sticky error Record returns %v, want it", err)
	}
}

func TestIssueDoesNotAllocate(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	call := func(driver.Device, driver.Stream) error { return nil }
	if n := testing.AllocsPerRun(100, func() { r.ok(s.Issue("nothing", call)) }); n != 0 {
		t.Errorf("Issue allocates %v times", n)
	}
}
