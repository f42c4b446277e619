package pin_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// The benchmarks run on whatever device asynccopy.OpenDefault finds; BenchmarkDevice says which.
// REQUIRE_GPU=1 makes them fail where that is not a GPU.

var sizes = []struct {
	name  string
	bytes int
}{
	{"4KiB", 4 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}, {"16MiB", 16 << 20}, {"256MiB", 256 << 20},
}

func device(b *testing.B) *asynccopy.Device {
	b.Helper()
	dev, err := asynccopy.OpenDefault()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := dev.Close(); err != nil {
			b.Error(err)
		}
	})
	if os.Getenv("REQUIRE_GPU") == "1" && !dev.IsCUDA() {
		b.Fatalf("REQUIRE_GPU=1, but the device is %s", dev.Name())
	}
	return dev
}

// BenchmarkDevice measures opening the device, and names it.
func BenchmarkDevice(b *testing.B) {
	b.Run("name="+strings.ReplaceAll(device(b).Name(), " ", "_"), func(b *testing.B) {
		for b.Loop() {
			dev, err := asynccopy.OpenDefault()
			if err != nil {
				b.Fatal(err)
			}
			if err := dev.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func stream(b *testing.B, dev *asynccopy.Device) *asynccopy.Stream {
	b.Helper()
	s, err := dev.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// filled returns an ordinary or a pinned tensor of n bytes. Its content is not zero: untouched zero
// pages are all one page to the system, and copy faster than data.
func filled(b *testing.B, n int, pinned bool) *tensor.Dense {
	b.Helper()
	t := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(n))
	for i, data := 0, t.Data().([]uint8); i < len(data); i++ {
		data[i] = uint8(i*7 + 1)
	}
	if !pinned {
		return t
	}
	p, err := pintensor.Pin(t)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := pintensor.Release(p); err != nil {
			b.Error(err)
		}
	})
	return p
}

var memories = []struct {
	name   string
	pinned bool
}{{"pinned", true}, {"pageable", false}}

// lender returns a function that takes a tensor of some bytes from an engine, and gives it back.
type lender func(b *testing.B, e *pintensor.Engine, bytes int) (lend func() error)

// benchmarkCache measures what l returns with memory that the engine has in its cache, and with memory that it has to
// page-lock first.
func benchmarkCache(b *testing.B, l lender) {
	dev := device(b) // whose context page-locked memory belongs to; making one each time would be measured too
	engine, err := pintensor.NewEngine()
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	for _, size := range sizes {
		b.Run("cache=warm/size="+size.name, func(b *testing.B) {
			lend := l(b, engine, size.bytes)
			if err := lend(); err != nil { // fills the cache
				b.Fatal(err)
			}
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			for b.Loop() {
				if err := lend(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	cold := sizes
	if dev.IsCUDA() { // such a machine has the memory
		cold = append(cold[:len(cold):len(cold)], struct {
			name  string
			bytes int
		}{"1GiB", 1 << 30})
	}
	for _, size := range cold {
		b.Run("cache=cold/size="+size.name, func(b *testing.B) {
			lend := l(b, engine, size.bytes)
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if _, err := engine.Trim(0); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := lend(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// made takes a tensor from make, and gives it back.
func made(e *pintensor.Engine, make func() (*tensor.Dense, error)) func() error {
	return func() error {
		t, err := make()
		if err != nil {
			return err
		}
		return e.Release(t)
	}
}

func BenchmarkNew(b *testing.B) {
	benchmarkCache(b, func(_ *testing.B, e *pintensor.Engine, bytes int) func() error {
		return made(e, func() (*tensor.Dense, error) { return e.New(tensor.Uint8, bytes) })
	})
}

// BenchmarkEmpty is BenchmarkNew without the zeros.
func BenchmarkEmpty(b *testing.B) {
	benchmarkCache(b, func(_ *testing.B, e *pintensor.Engine, bytes int) func() error {
		return made(e, func() (*tensor.Dense, error) { return e.Empty(tensor.Uint8, bytes) })
	})
}

func BenchmarkPin(b *testing.B) {
	benchmarkCache(b, func(b *testing.B, e *pintensor.Engine, bytes int) func() error {
		src := filled(b, bytes, false)
		return made(e, func() (*tensor.Dense, error) { return e.Pin(src) })
	})
}

// BenchmarkPinInto fills a pinned tensor that is there, and does the same with Go's copy, which one core does.
func BenchmarkPinInto(b *testing.B) {
	for _, size := range sizes {
		for _, by := range []struct {
			name string
			copy func(dst, src *tensor.Dense) error
		}{
			{"PinInto", pintensor.PinInto},
			{"copy", func(dst, src *tensor.Dense) error { copy(dst.Raw, src.Raw); return nil }},
		} {
			b.Run(fmt.Sprintf("size=%s/by=%s", size.name, by.name), func(b *testing.B) {
				dst, src := filled(b, size.bytes, true), filled(b, size.bytes, false)
				b.SetBytes(int64(size.bytes))
				b.ReportAllocs()
				for b.Loop() {
					if err := by.copy(dst, src); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkToDevice(b *testing.B) {
	dev := device(b)
	s := stream(b, dev)
	for _, size := range sizes {
		for _, mem := range memories {
			b.Run(fmt.Sprintf("size=%s/mem=%s", size.name, mem.name), func(b *testing.B) {
				src := filled(b, size.bytes, mem.pinned)
				b.SetBytes(int64(size.bytes))
				b.ReportAllocs()
				copyIn := func() {
					x, err := s.ToDevice(src, false)
					if err != nil {
						b.Fatal(err)
					}
					if err := x.Release(); err != nil {
						b.Fatal(err)
					}
				}
				copyIn() // sets up what later copies share
				for b.Loop() {
					copyIn()
				}
			})
		}
	}
}

// BenchmarkToDeviceIssue is the time that a non-blocking call takes from its caller: allocation, copy,
// event and bookkeeping.
func BenchmarkToDeviceIssue(b *testing.B) {
	dev := device(b)
	s := stream(b, dev)
	b.Run("size=4KiB/mem=pinned", func(b *testing.B) {
		src := filled(b, 4<<10, true)
		b.ReportAllocs()
		for b.Loop() {
			x, err := s.ToDevice(src, true)
			if err != nil {
				b.Fatal(err)
			}
			if err := x.Release(); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Synchronize(context.Background()); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkToHost(b *testing.B) {
	dev := device(b)
	s := stream(b, dev)
	for _, size := range sizes {
		for _, mem := range memories {
			b.Run(fmt.Sprintf("size=%s/mem=%s", size.name, mem.name), func(b *testing.B) {
				dst := filled(b, size.bytes, mem.pinned)
				x, err := s.ToDevice(dst, false)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size.bytes))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.ToHostInto(dst, x, false); err != nil {
						b.Fatal(err)
					}
				}
				if err := x.Release(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
