//go:build cuda

package asynccopy_test

// This file tests on contexts, streams, events and memory of gorgonia.org/cu. It needs a GPU: cu ends the process
// where there is none.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/cu"
	"gorgonia.org/tensor"
)

// newCU returns a context of cu's, with its own goroutine, closed when the test ends.
func newCU(t testing.TB) *cu.Ctx {
	t.Helper()
	dev, err := cu.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx := cu.NewContext(dev, cu.SchedAuto)
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

// newStream returns a stream of cu's, destroyed when the test ends.
func newStream(t testing.TB, ctx cu.Context) cu.Stream {
	t.Helper()
	s, err := ctx.MakeStream(cu.NonBlocking)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx.DestroyStream(&s)
		if err := ctx.Error(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fromCU returns a Stream on a new stream of ctx, whose Device is closed when the test ends.
func fromCU(t testing.TB, ctx cu.Context) *asynccopy.Stream {
	t.Helper()
	s := must(asynccopy.FromCU(ctx, newStream(t, ctx)))(t)
	t.Cleanup(func() {
		if err := s.Device().Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// axpyCU is the kernel y += a*x, launched with cu.
type axpyCU struct {
	ctx cu.Context
	fn  cu.Function
	mu  *sync.Mutex // a Ctx keeps the error of the last call, whoever made it
}

func loadCU(t testing.TB, ctx *cu.Ctx) axpyCU {
	t.Helper()
	var m cu.Module
	err := ctx.Do(func() (err error) { m, err = cu.LoadData(string(drivertest.Image.CUDA)); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ctx.Unload(m) })
	return axpyCU{ctx, must(ctx.ModuleFunction(m, "axpy"))(t), new(sync.Mutex)}
}

func (k axpyCU) launch(y, x cu.DevicePtr, a float32, n int, s cu.Stream) error {
	n32 := uint32(n)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx.LaunchKernel(k.fn, (n+255)/256, 1, 1, 256, 1, 1, 0, s, []unsafe.Pointer{
		unsafe.Pointer(&y), unsafe.Pointer(&x), unsafe.Pointer(&a), unsafe.Pointer(&n32)})
	return k.ctx.Error()
}

// TestCUKernelBetweenCopies has a kernel of cu's between copies on cu's stream, pinned and pageable.
func TestCUKernelBetweenCopies(t *testing.T) {
	ctx := newCU(t)
	s, k := fromCU(t, ctx), loadCU(t, ctx)
	for _, mem := range []string{"pinned", "pageable"} {
		for _, n := range []int{1, 1000, 4 << 20} {
			t.Run(fmt.Sprintf("mem=%s/n=%d", mem, n), func(t *testing.T) {
				host := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(n))
				if mem == "pinned" {
					host = must(pintensor.New(tensor.Float32, n))(t)
					defer pintensor.Release(host)
				}
				for i, v := 0, host.Float32s(); i < n; i++ {
					v[i] = float32(i % 1000)
				}
				x, y := must(s.ToDevice(host, true))(t), must(s.ToDevice(host, true))(t)
				if err := k.launch(y.CU(), x.CU(), 2, n, s.CU()); err != nil {
					t.Fatal(err)
				}
				if _, err := s.ToHostInto(host, y, false); err != nil {
					t.Fatal(err)
				}
				for i, got := range host.Float32s() {
					if want := 3 * float32(i%1000); got != want {
						t.Fatalf("value %d is %v, want %v", i, got, want)
					}
				}
				if err := errors.Join(x.Release(), y.Release()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCUSameStream: one context has one Device, one stream one Stream, whichever kind of context names it.
func TestCUSameStream(t *testing.T) {
	ctx := newCU(t)
	stream := newStream(t, ctx)
	s := must(asynccopy.FromCU(ctx, stream))(t)
	defer s.Device().Close()
	if again := must(asynccopy.FromCU(ctx, stream))(t); again != s {
		t.Error("the same stream gave another Stream")
	}
	if s.CU() != stream {
		t.Errorf("CU gives %v, want %v", s.CU(), stream)
	}
	dev := must(cu.GetDevice(0))(t)
	batched := cu.NewBatchedContext(ctx, dev)
	if b := must(asynccopy.FromCU(batched, stream))(t); b != s {
		t.Error("the BatchedContext of the same context gave another Stream")
	}
	other := must(s.Device().NewStream())(t)
	if other.CU() == stream || other.CU() == cu.NoStream {
		t.Errorf("a stream of this package's is %v for cu", other.CU())
	}

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := must(cu.CurrentContext())(t)
	if err := cu.SetCurrentContext(ctx.CUDAContext()); err != nil {
		t.Fatal(err)
	}
	if c := must(asynccopy.FromCU(nil, stream))(t); c != s {
		t.Error("the current context gave another Stream")
	}
	if now := must(cu.CurrentContext())(t); now != ctx.CUDAContext() {
		t.Errorf("the current context is %v after FromCU, was %v", now, ctx.CUDAContext())
	}
	if err := cu.SetCurrentContext(before); err != nil {
		t.Fatal(err)
	}
}

func TestCURefuses(t *testing.T) {
	ctx := newCU(t)
	stream := newStream(t, ctx)
	for name, c := range map[string]struct {
		ctx  cu.Context
		s    cu.Stream
		want string
	}{
		"the default stream":    {ctx, cu.NoStream, "cu.NoStream"},
		"a context that closed": {&cu.Ctx{}, stream, "it was closed"},
	} {
		if s, err := asynccopy.FromCU(c.ctx, c.s); s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want an error with %q", name, s, err, c.want)
		}
	}
}

// TestCUMemoryAndEvents has cu's memory written on cu's stream, copied on another, and given back by events.
func TestCUMemoryAndEvents(t *testing.T) {
	const n = 1 << 20
	ctx := newCU(t)
	s := fromCU(t, ctx)
	own := must(s.Device().NewStream())(t)
	p := must(ctx.MemAlloc(n))(t)
	defer ctx.MemFree(p)
	e := must(ctx.MakeEvent(cu.DisableTiming))(t)
	defer ctx.DestroyEvent(&e)
	x := must(own.TensorFromCU(p, tensor.Uint8, n))(t)
	back := must(pintensor.New(tensor.Uint8, n))(t)
	defer pintensor.Release(back)
	theirs := newStream(t, ctx)
	for round := range byte(5) {
		ctx.MemsetD8Async(p, round, n, theirs)
		ctx.Record(e, theirs)
		if err := own.WaitCU(e); err != nil {
			t.Fatal(err)
		}
		arrived := must(own.ToHostInto(back, x, true))(t)
		if err := own.RecordCU(e); err != nil {
			t.Fatal(err)
		}
		ctx.Wait(theirs, e, 0) // the next fill comes after the copy
		if err := errors.Join(ctx.Error(), arrived.Wait(context.Background())); err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(back.Uint8s(), func(b byte) bool { return b != round }); i >= 0 {
			t.Fatalf("round %d: byte %d is %d", round, i, back.Uint8s()[i])
		}
	}
	if err := x.Release(); err != nil {
		t.Error(err)
	}
	ctx.MemsetD8(p, 1, n) // it is still allocated
	if err := ctx.Error(); err != nil {
		t.Error(err)
	}
}

// TestCUFromManyGoroutines copies from 64 goroutines, which move between threads, while cu's contexts, bound to
// goroutines of their own, work too.
func TestCUFromManyGoroutines(t *testing.T) {
	const n, rounds = 4096, 20
	a, b := newCU(t), newCU(t)
	streams := []*asynccopy.Stream{fromCU(t, a), fromCU(t, b)}
	kernels := []axpyCU{loadCU(t, a), loadCU(t, b)}
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			s, k := streams[g%2], kernels[g%2]
			own, err := s.Device().NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			host := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(n))
			for round := range rounds {
				if err := host.Memset(float32(g + round)); err != nil {
					t.Error(err)
					return
				}
				x, err := own.ToDevice(host, true)
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				err = errors.Join(k.launch(x.CU(), x.CU(), 1, n, own.CU()))
				_, failed := own.ToHostInto(host, x, false)
				if err := errors.Join(err, failed, x.Release()); err != nil {
					t.Error(err)
					return
				}
				for i, got := range host.Float32s() {
					if want := 2 * float32(g+round); math.Abs(float64(got-want)) > 0 {
						t.Errorf("goroutine %d, round %d: value %d is %v, want %v", g, round, i, got, want)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkCUMemcpyHtoD is cu's own blocking copy, from memory of each kind: nothing of the program changes but the
// tensor.
func BenchmarkCUMemcpyHtoD(b *testing.B) {
	ctx := newCU(b)
	for _, mem := range []string{"pinned", "pageable"} {
		for _, n := range benchSizes {
			b.Run(size(n)+"/mem="+mem, func(b *testing.B) {
				t := hostMemory(b, mem, n)
				p, err := ctx.MemAlloc(int64(n))
				if err != nil {
					b.Fatal(err)
				}
				defer ctx.MemFree(p)
				src := unsafe.Pointer(unsafe.SliceData(t.Uint8s()))
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					ctx.MemcpyHtoD(p, src, int64(n))
				}
				if err := ctx.Error(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
