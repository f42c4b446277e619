package asynccopy_test

// This file tests that memory lives as long as a copy needs it, and no longer: on the late device, a buffer
// that is used again too early shows as wrong contents, and host memory freed too early too.

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// churn makes memory that was freed too early be used again: it collects, then fills all that the
// engine lends with something else.
func churn(r *rig, n int) {
	r.Helper()
	for range 3 {
		runtime.GC()
	}
	var lent []*tensor.Dense
	for range 8 {
		lent = append(lent, r.pinned(n, 99))
		pageable(n, 99)
	}
	for _, t := range lent {
		r.release(t)
	}
}

// TestSourceDroppedAtOnce issues a copy and drops or releases the source: field reports cupy#8789,
// cudarc#340.
func TestSourceDroppedAtOnce(t *testing.T) {
	sources := map[string]func(r *rig, n int) *tensor.Dense{
		"pinned":   func(r *rig, n int) *tensor.Dense { return r.pinned(n, 1) },
		"pageable": func(r *rig, n int) *tensor.Dense { return pageable(n, 1) },
		"registered": func(r *rig, n int) *tensor.Dense {
			t := pageable(n, 1)
			unregister := must(r.engine.Register(t))(r)
			r.Cleanup(func() {
				if err := unregister(); err != nil {
					r.Error(err)
				}
			})
			return t
		},
		"view": func(r *rig, n int) *tensor.Dense {
			whole := r.pinned(2*n, 1)
			front := must(whole.Slice(tensor.S(0, n)))(r).(*tensor.Dense)
			pattern(front, 1)
			return front
		},
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				const n = 64 << 10
				s := r.stream()
				x := must(s.ToDevice(source(r, n), true))(r)
				churn(r, n)
				churn(r, 2*n)
				r.holds(s, x, 1)
				r.ok(x.Release())
				settle(r)
			})
		})
	}
}

// settle has the collector return what a test dropped without Release.
func settle(r *rig) {
	r.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for r.engine.Stats().Lent.Current > 0 && time.Now().Before(deadline) {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

func TestSourceReleasedAtOnce(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 64 << 10
		s := r.stream()
		for _, into := range []bool{false, true} {
			src := r.pinned(n, 1)
			x := must(s.Empty(tensor.Uint8, n))(r)
			if into {
				r.ok(s.ToDeviceInto(x, src, true))
			} else {
				r.ok(x.Release())
				x = must(s.ToDevice(src, true))(r)
			}
			r.release(src)
			churn(r, n)
			r.holds(s, x, 1)
			r.ok(x.Release())
		}
	})
}

// TestStridedSourceReleasedAtOnce: a view in pinned memory is gathered while the device makes room, long
// after its release.
func TestStridedSourceReleasedAtOnce(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(soft.Op) time.Duration { <-hold; return 0 }}))
	s := r.stream()
	rows := longest() / 1024
	src := must(r.engine.New(tensor.Uint8, rows, 1024))(r)
	pattern(src, 1)
	r.ok(src.T())
	want := elements(src)
	x := must(s.ToDevice(src, true))(r)
	time.Sleep(10 * time.Millisecond) // for the goroutines to come to where they wait for the device
	r.release(src)
	next := must(r.engine.New(tensor.Uint8, rows, 1024))(r)
	pattern(next, 99)
	close(hold)
	into := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(1024, rows))
	must(s.ToHostInto(into, x, false))(r)
	if !bytes.Equal(into.Raw, want) {
		r.Error("the copy of a transposed tensor is wrong after its release")
	}
	r.release(next)
	r.ok(x.Release())
}

// TestFreedMemoryIsNotReusedTooEarly: a stream that gets memory freed on another must not write before the
// other has read.
func TestFreedMemoryIsNotReusedTooEarly(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 64 << 10
		a, b := r.stream(), r.stream()
		one, two := r.pinned(n, 1), r.pinned(n, 2)
		for range 10 {
			x := must(a.ToDevice(one, true))(r)
			down := must(a.ToHost(x, true))(r)
			r.ok(x.Release())
			y := must(b.ToDevice(two, true))(r)
			r.ok(b.Synchronize(context.Background()))
			host := must(down.Wait(r.Context()))(r)
			r.is(host, 1)
			r.release(host)
			r.holds(a, y, 2)
			r.ok(y.Release())
		}
		r.release(one)
		r.release(two)
	})
}

// TestNewMemoryOnAnotherStream: memory freed on a stream is there again at once, but other streams must not
// write it while that one still reads it.
func TestNewMemoryOnAnotherStream(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 64 << 10
		a, b := r.stream(), r.stream()
		one, two := r.pinned(n, 1), r.pinned(n, 2)
		for range 10 {
			x := must(a.ToDevice(one, true))(r)
			down := must(a.ToHost(x, true))(r)
			r.ok(x.Release())
			y := must(a.Empty(tensor.Uint8, n))(r)
			r.ok(b.ToDeviceInto(y, two, true))
			r.ok(b.Synchronize(context.Background()))
			host := must(down.Wait(r.Context()))(r)
			r.is(host, 1)
			r.release(host)
			r.holds(a, y, 2)
			r.ok(y.Release())
		}
		r.release(one)
		r.release(two)
	})
}

// TestDownloadDropped issues copies to the host and drops their handles: the memory must not be lent to
// others before they are done.
func TestDownloadDropped(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 64 << 10
		s := r.stream()
		x := must(s.ToDevice(r.dropped(n, 1), true))(r)
		for range 10 {
			must(s.ToHost(x, true))(r)
		}
		for range 3 {
			runtime.GC()
		}
		guard := r.pinned(n, 5)
		r.ok(s.Synchronize(r.Context()))
		r.is(guard, 5)
		r.release(guard)
		r.ok(x.Release())
		settle(r)
		if got := r.engine.Stats().Forgotten; got != 1 {
			r.Errorf("%d tensors count as forgotten, want only the source: downloads may be left to the collector", got)
		}
	})
}

// dropped returns pinned memory that the test will not release.
func (r *rig) dropped(n int, seed uint64) *tensor.Dense { return r.pinned(n, seed) }

// TestDestinationReleasedAtOnce: pytorch#86264's other half, a block must not be lent again while the
// device writes it.
func TestDestinationReleasedAtOnce(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 64 << 10
		s := r.stream()
		x := must(s.ToDevice(pageable(n, 1), true))(r)
		dst := r.pinned(n, 2)
		e := must(s.ToHostInto(dst, x, true))(r)
		r.release(dst)
		guard := r.pinned(n, 5)
		r.ok(e.Wait(r.Context()))
		r.is(guard, 5)
		r.release(guard)
		r.ok(x.Release())
	})
}

func TestReleaseDuringCopies(t *testing.T) {
	onEach(t, func(r *rig) {
		a, b := r.stream(), r.stream()
		for _, n := range []int{1000, longest()} {
			for range 10 {
				src := pageable(n, 1)
				x := must(a.ToDevice(src, true))(r)
				down := must(b.ToHost(x, true))(r)
				into := pageable(n, 2)
				e := must(a.ToHostInto(into, x, true))(r)
				r.ok(x.Release()) // all three copies may be under way
				y := must(b.Empty(tensor.Uint8, n))(r)
				r.ok(b.ToDeviceInto(y, pageable(n, 3), true))
				host := must(down.Wait(r.Context()))(r)
				r.is(host, 1)
				r.release(host)
				r.ok(e.Wait(r.Context()))
				r.is(into, 1)
				r.ok(y.Release())
			}
		}
	})
}

// TestLastUseIsAStageThatAnotherAwaits: when the goroutines of a copy are the last to use a tensor that was
// released, they free its memory, behind other code's work on a stream which waits for them itself.
func TestLastUseIsAStageThatAnotherAwaits(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Delay: func(op soft.Op) time.Duration {
		if op.Call == "CopyDtoH" {
			<-hold
		}
		return 0
	}}))
	a, b := r.stream(), r.stream()
	n := 2 * asynccopy.Smallest // the copy is issued at once, and takes until the device has done its part
	x := must(a.ToDevice(pageable(n, 1), false))(r)
	into := pageable(n, 2)
	e := must(a.ToHostInto(into, x, true))(r)
	r.ok(x.Use(b))
	r.ok(x.Release())
	r.ok(b.Wait(e))
	close(hold)
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	if err := b.Synchronize(ctx); err != nil {
		panic(err) // the streams wait for each other, so nothing can be closed
	}
	r.is(into, 1)
}

func TestReleasedTensorIsRefused(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		x := must(s.ToDevice(pageable(10, 1), false))(r)
		r.ok(x.Release())
		_, toHost := s.ToHost(x, false)
		_, toHostInto := s.ToHostInto(pageable(10, 1), x, false)
		for call, err := range map[string]error{
			"Release": x.Release(), "ToHost": toHost, "ToHostInto": toHostInto, "Use": x.Use(s),
			"ToDeviceInto": s.ToDeviceInto(x, pageable(10, 1), false),
		} {
			refused(r, call, err, call, "the tensor was already released")
			if !errors.Is(err, asynccopy.ErrReleased) {
				r.Errorf("%s of a released Tensor: %v, want ErrReleased", call, err)
			}
		}
		if p := x.DevicePtr(); p != 0 {
			r.Errorf("DevicePtr() = %#x after Release", p)
		}
	})
}

func TestReleasedSourceIsRefused(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		src := r.pinned(100, 1)
		r.release(src)
		if _, err := s.ToDevice(src, true); !errors.Is(err, pintensor.ErrReleased) {
			r.Errorf("ToDevice of a released tensor: %v, want pintensor.ErrReleased", err)
		}
	})
}

// TestDroppedTensorsAreReclaimed never calls Release, on a device that would run out of memory many times.
func TestDroppedTensorsAreReclaimed(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		const n = 2 * asynccopy.Smallest
		for range 100 {
			must(s.ToDevice(r.shared(n), true))(r)
		}
		deadline := time.Now().Add(10 * time.Second)
		for r.dev.Stats().Tensors > 0 && time.Now().Before(deadline) {
			runtime.GC()
			time.Sleep(time.Millisecond)
			x := must(s.Empty(tensor.Uint8, 1))(r)
			r.ok(x.Release())
		}
		if st := r.dev.Stats(); st.Tensors != 0 || st.Reclaimed != 100 || st.Memory.Current != 0 {
			r.Errorf("after the collector ran: %+v, want no tensors and 100 reclaimed", st)
		}
	})
}

// shared is a source that needs no release.
func (r *rig) shared(n int) *tensor.Dense { return pageable(n, 1) }

func TestCloseFreesWhatIsLeft(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		x := must(s.ToDevice(pageable(1000, 1), true))(r)
		y := must(s.ToDevice(pageable(3<<20, 1), true))(r)
		e := must(s.Record())(r)
		r.ok(r.dev.Close())
		if st := r.dev.Stats(); st.Tensors != 0 || st.Streams != 0 || st.Memory.Current != 0 {
			r.Errorf("Close left %+v", st)
		}
		if done, err := e.Done(); !done || err != nil {
			r.Errorf("an event of the closed device: %v, %v, want done", done, err)
		}
		r.ok(y.Wait(context.Background()))
		r.ok(x.Release())
		if err := x.Release(); !errors.Is(err, asynccopy.ErrReleased) {
			r.Errorf("second Release after Close: %v, want ErrReleased", err)
		}
		r.ok(r.dev.Close())
		r.ok(s.Close())
		_, record := s.Record()
		_, newStream := r.dev.NewStream()
		_, _, memInfo := r.dev.MemInfo()
		_, toDevice := s.ToDevice(pageable(1, 1), true)
		for call, err := range map[string]error{
			"Record": record, "NewStream": newStream, "MemInfo": memInfo, "ToDevice": toDevice,
			"Synchronize": s.Synchronize(context.Background()), "Wait": s.Wait(e), "Use": y.Use(s),
		} {
			if !errors.Is(err, asynccopy.ErrClosed) {
				r.Errorf("%s after Close: %v, want ErrClosed", call, err)
			}
		}
		if h := s.Handle(); h != 0 {
			r.Errorf("Handle() = %#x after Close", h)
		}
	})
}

// TestEngineWithoutMemory: chunks are ordinary memory then, which nobody but the copy keeps alive.
func TestEngineWithoutMemory(t *testing.T) {
	onEach(t, func(r *rig) {
		full := must(pintensor.NewEngine(pintensor.WithLimit(32<<10), pintensor.WithDriver(locking{})))(r)
		r.Cleanup(func() { r.ok(full.Close()) })
		r.dev.SetEngine(full)
		s := r.stream()
		for _, n := range []int{64 << 10, longest()} {
			x := must(s.ToDevice(pageable(n, 1), true))(r)
			churn(r, n)
			into := pageable(n, 2)
			must(s.ToHostInto(into, x, true))(r)
			r.ok(s.Synchronize(r.Context()))
			r.is(into, 1)
			if _, err := s.ToHost(x, true); !errors.Is(err, pintensor.ErrLimit) {
				r.Errorf("ToHost of %d bytes without memory: %v, want ErrLimit", n, err)
			}
			r.ok(x.Release())
		}
	})
}

// TestErrorsOfTheEngineAreTold: a copy does without page-locked memory, but what the engine had to say is not
// lost.
func TestErrorsOfTheEngineAreTold(t *testing.T) {
	onEach(t, func(r *rig) {
		engine := must(pintensor.NewEngine(pintensor.WithPoison(), pintensor.WithDriver(locking{})))(r)
		r.Cleanup(func() { r.ok(engine.Close()) })
		r.dev.SetEngine(engine)
		const n = 64 << 10
		late := must(engine.New(tensor.Uint8, n))(r)
		r.ok(engine.Release(late))
		late.Raw[7]++
		s := r.stream()
		x := must(s.ToDevice(pageable(n, 1), true))(r)
		if err := s.Synchronize(r.Context()); !errors.Is(err, pintensor.ErrWritten) {
			r.Errorf("Synchronize: %v, want ErrWritten", err)
		}
		down := must(s.ToHost(x, false))(r)
		host := must(down.Wait(r.Context()))(r)
		r.is(host, 1)
		r.ok(engine.Release(host))
		r.ok(x.Release())
	})
}
