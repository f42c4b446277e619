package asynccopy_test

// This file measures what a copy costs to issue, and how fast it is, by size and kind of memory.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// benchDevice returns the first CUDA device, or the software device. A benchmark that opens one for each of its parts opens
// one for itself: so that the context stays, which takes 0.2 s to make.
func benchDevice(b *testing.B) (*asynccopy.Device, *asynccopy.Stream) {
	d, err := asynccopy.OpenDefault()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	s, err := d.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	return d, s
}

func size(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("size=%dMiB", n>>20)
	}
	return fmt.Sprintf("size=%dKiB", n>>10)
}

var benchSizes = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20}

// hostMemory returns a tensor in each kind of host memory.
func hostMemory(b *testing.B, mem string, n int) *tensor.Dense {
	if mem == "pageable" {
		return pageable(n, 1)
	}
	t, err := pintensor.New(tensor.Uint8, n)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { pintensor.Release(t) })
	return t
}

// issues are the calls that BenchmarkIssue measures.
var issues = map[string]func(s *asynccopy.Stream, x *asynccopy.Tensor, t *tensor.Dense) error{
	"ToDevice": func(s *asynccopy.Stream, _ *asynccopy.Tensor, t *tensor.Dense) error {
		x, err := s.ToDevice(t, true)
		if err != nil {
			return err
		}
		return x.Release()
	},
	"ToDeviceInto": func(s *asynccopy.Stream, x *asynccopy.Tensor, t *tensor.Dense) error {
		return s.ToDeviceInto(x, t, true)
	},
	// The driver's copy and the record of an event, and nothing else: what can't be saved.
	"raw": nil,
}

// BenchmarkIssue is what it takes to issue a copy of 4 KiB, its event included, and to release the Tensor of ToDevice.
//
// In the form burst 64 calls at a time are timed, which find the stream idle, and not the wait for them: so it is what a
// call keeps its caller for. In the form loop all calls are timed, and one wait at their end, as PyTorch's are measured
// beside it: a device that takes longer for a copy than a call does holds the loop up.
func BenchmarkIssue(b *testing.B) {
	benchDevice(b)
	for _, form := range []string{"burst", "loop"} {
		for _, mem := range []string{"pinned", "pageable"} {
			for _, call := range []string{"ToDevice", "ToDeviceInto", "raw"} {
				if call == "raw" && mem == "pageable" {
					continue
				}
				b.Run(fmt.Sprintf("call=%s/size=4KiB/mem=%s/form=%s", call, mem, form), func(b *testing.B) {
					d, s := benchDevice(b)
					t := hostMemory(b, mem, 4096)
					x, err := s.ToDevice(t, false)
					if err != nil {
						b.Fatal(err)
					}
					issue := issues[call]
					if call == "raw" {
						raw, end := rawIssue(b, d, s, x, t)
						defer end()
						issue = func(*asynccopy.Stream, *asynccopy.Tensor, *tensor.Dense) error { return raw() }
					}
					benchIssue(b, s, form, func() error { return issue(s, x, t) })
				})
			}
		}
	}
}

// rawIssue returns the driver's calls that copy t to x.
func rawIssue(b *testing.B, d *asynccopy.Device, s *asynccopy.Stream, x *asynccopy.Tensor, t *tensor.Dense) (issue func() error, end func()) {
	drv, stream, p := d.Driver(), driver.Stream(s.Handle()), driver.DevicePtr(x.DevicePtr())
	e, err := drv.NewEvent()
	if err != nil {
		b.Fatal(err)
	}
	return func() error { return drv.CopyHtoD(p, unsafe.Pointer(&t.Raw[0]), int64(len(t.Raw)), stream, e) },
		func() { drv.DestroyEvent(e) }
}

func benchIssue(b *testing.B, s *asynccopy.Stream, form string, issue func() error) {
	const burst = 64
	if form == "loop" {
		b.ReportAllocs()
		for range b.N { // not b.Loop, which would not time the wait
			if err := issue(); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Synchronize(context.Background()); err != nil {
			b.Fatal(err)
		}
		return
	}
	var took time.Duration // not StopTimer, which stops the world: its other threads would be waking up during the calls
	for b.Loop() {
		start := time.Now()
		for range burst {
			if err := issue(); err != nil {
				b.Fatal(err)
			}
		}
		took += time.Since(start)
		if err := s.Synchronize(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/burst, "ns/op")
}

// BenchmarkRaw is the ceiling: the driver's own copy from page-locked memory, and a wait for it.
func BenchmarkRaw(b *testing.B) {
	benchDevice(b)
	for _, n := range benchSizes {
		for _, direction := range []string{"in", "out"} {
			b.Run(size(n)+"/direction="+direction, func(b *testing.B) {
				raw, _ := rawAndOurs(b, n, direction)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := raw(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkOfRaw makes the driver's copy and ours in turn, so that whatever else the machine does slows both: of-raw is
// the driver's time over ours, 1 if ours costs nothing.
func BenchmarkOfRaw(b *testing.B) {
	benchDevice(b)
	for _, n := range benchSizes {
		for _, direction := range []string{"in", "out"} {
			b.Run(size(n)+"/direction="+direction, func(b *testing.B) {
				raw, ours := rawAndOurs(b, n, direction)
				var took [2]time.Duration
				for i := 0; b.Loop(); i++ {
					for k := range 2 {
						which := (i + k) % 2
						start := time.Now()
						err := [](func() error){raw, ours}[which]()
						took[which] += time.Since(start)
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(took[0])/float64(took[1]), "of-raw")
				b.ReportMetric(float64(b.N)*float64(n)/took[0].Seconds()/1e9, "raw-GB/s")
				b.ReportMetric(float64(b.N)*float64(n)/took[1].Seconds()/1e9, "GB/s")
			})
		}
	}
}

// rawAndOurs returns a copy of n bytes between page-locked memory and a Tensor, complete when it returns: by the driver's
// calls, and by this package's.
func rawAndOurs(b *testing.B, n int, direction string) (raw, ours func() error) {
	d, s := benchDevice(b)
	t := hostMemory(b, "pinned", n)
	x, err := s.ToDevice(t, false)
	if err != nil {
		b.Fatal(err)
	}
	drv, stream, p := d.Driver(), driver.Stream(s.Handle()), driver.DevicePtr(x.DevicePtr())
	e, err := drv.NewEvent()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { drv.DestroyEvent(e) }) // before the device closes
	host := unsafe.Pointer(&t.Raw[0])
	issue := func() error { return drv.CopyHtoD(p, host, int64(n), stream, e) }
	ours = func() error { return s.ToDeviceInto(x, t, false) }
	if direction == "out" {
		issue = func() error { return drv.CopyDtoH(host, p, int64(n), stream, e) }
		ours = func() error { _, err := s.ToHostInto(t, x, false); return err }
	}
	raw = func() error {
		if err := issue(); err != nil {
			return err
		}
		return drv.SyncEvent(e)
	}
	return raw, ours
}

// BenchmarkBothWays copies in on one stream and out on another at once. The bytes are those of both.
func BenchmarkBothWays(b *testing.B) {
	benchDevice(b)
	for _, mem := range []string{"pinned", "pageable"} {
		for _, n := range []int{1 << 20, 16 << 20, 128 << 20} {
			b.Run(size(n)+"/mem="+mem, func(b *testing.B) {
				d, in := benchDevice(b)
				out, err := d.NewStream()
				if err != nil {
					b.Fatal(err)
				}
				src, dst := hostMemory(b, mem, n), hostMemory(b, mem, n)
				x, err := in.ToDevice(src, false)
				if err != nil {
					b.Fatal(err)
				}
				y, err := in.ToDevice(src, false)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(2 * int64(n))
				b.ReportAllocs()
				for b.Loop() {
					err := in.ToDeviceInto(x, src, true)
					e, failed := out.ToHostInto(dst, y, true)
					if err := errors.Join(err, failed); err != nil {
						b.Fatal(err)
					}
					if err := errors.Join(e.Wait(context.Background()), x.Wait(context.Background())); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkToDevice(b *testing.B) {
	benchDevice(b)
	for _, mem := range []string{"pinned", "pageable"} {
		for _, n := range benchSizes {
			b.Run(size(n)+"/mem="+mem, func(b *testing.B) {
				_, s := benchDevice(b)
				t := hostMemory(b, mem, n)
				x, err := s.Empty(tensor.Uint8, n)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := s.ToDeviceInto(x, t, false); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkToHost(b *testing.B) {
	benchDevice(b)
	for _, mem := range []string{"pinned", "pageable"} {
		for _, n := range benchSizes {
			b.Run(size(n)+"/mem="+mem, func(b *testing.B) {
				_, s := benchDevice(b)
				t := hostMemory(b, mem, n)
				x, err := s.ToDevice(t, false)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.ToHostInto(t, x, false); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkBatch is what it takes to bring many small tensors to the device: in one call, and in one each.
func BenchmarkBatch(b *testing.B) {
	benchDevice(b)
	const n, each = 1000, 4 << 10
	for _, mem := range []string{"pinned", "pageable"} {
		for _, call := range []string{"ToDeviceBatch", "ToDevice"} {
			b.Run(fmt.Sprintf("n=%d/size=4KiB/mem=%s/call=%s", n, mem, call), func(b *testing.B) {
				_, s := benchDevice(b)
				var ts []*tensor.Dense
				for range n {
					ts = append(ts, hostMemory(b, mem, each))
				}
				b.SetBytes(n * each)
				b.ReportAllocs()
				for b.Loop() {
					var xs []*asynccopy.Tensor
					var err error
					if call == "ToDeviceBatch" {
						xs, err = s.ToDeviceBatch(ts, false)
					} else {
						for _, t := range ts {
							x, failed := s.ToDevice(t, true)
							xs, err = append(xs, x), errors.Join(err, failed)
						}
						err = errors.Join(err, s.Synchronize(context.Background()))
					}
					for _, x := range xs {
						err = errors.Join(err, x.Release())
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStaging compares what WithStaging can be given.
func BenchmarkStaging(b *testing.B) {
	benchDevice(b)
	for _, n := range []int{512 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20} {
		for _, goroutines := range []int{0, 1, 4, 8, 12} {
			for _, chunk := range []int{0, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20} {
				if goroutines == 0 != (chunk == 0) || chunk > n {
					continue
				}
				for _, direction := range []string{"in", "out"} {
					b.Run(fmt.Sprintf("%s/goroutines=%d/chunk=%dKiB/direction=%s", size(n), goroutines, chunk>>10, direction), func(b *testing.B) {
						d, err := asynccopy.OpenDefault(asynccopy.WithStaging(goroutines, chunk))
						if err != nil {
							b.Fatal(err)
						}
						defer d.Close()
						if !d.IsCUDA() && n > 1<<20 {
							b.Skip("the software device's own copies are no faster than the host's")
						}
						s, err := d.Default()
						if err != nil {
							b.Fatal(err)
						}
						t := pageable(n, 1)
						x, err := s.ToDevice(t, false)
						if err != nil {
							b.Fatal(err)
						}
						b.SetBytes(int64(n))
						for b.Loop() {
							if direction == "in" {
								err = s.ToDeviceInto(x, t, false)
							} else {
								_, err = s.ToHostInto(t, x, false)
							}
							if err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		}
	}
}

// BenchmarkWait is the latency of noticing that a copy of 4 KiB is complete, by the kind of wait.
func BenchmarkWait(b *testing.B) {
	benchDevice(b)
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{"background": context.Background(), "cancellable": cancellable} {
		b.Run("size=4KiB/ctx="+name, func(b *testing.B) {
			_, s := benchDevice(b)
			t := hostMemory(b, "pinned", 4096)
			x, err := s.Empty(tensor.Uint8, 4096)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := errors.Join(s.ToDeviceInto(x, t, true), x.Wait(ctx)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPart is what a tensor costs that shares memory with another.
func BenchmarkPart(b *testing.B) {
	_, s := benchDevice(b)
	x, err := s.Empty(tensor.Uint8, 1<<20)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		part, err := x.Part(4096, tensor.Float32, 64, 784)
		if err != nil {
			b.Fatal(err)
		}
		if err := part.Release(); err != nil {
			b.Fatal(err)
		}
	}
}
