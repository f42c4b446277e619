package pintensor

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/drivertest"
)

var benchSizes = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20}

func sizeName(n int) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%dGiB", n>>30)
	}
	if n >= 1<<20 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}

// benchEngine locks through a fake, so that what is measured is the engine, and small limits don't matter.
func benchEngine(b *testing.B, opts ...Option) *Engine {
	b.Helper()
	e, err := NewEngine(append(opts, WithDriver(drivertest.NewFaultyHost(&fakeHost{name: "cuda"})))...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}

// BenchmarkNewRelease is a block from the cache and back. The size matters because New clears it.
func BenchmarkNewRelease(b *testing.B) {
	for _, size := range benchSizes {
		b.Run("size="+sizeName(size), func(b *testing.B) {
			e := benchEngine(b)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				d, err := e.New(tensor.Float32, size/4)
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Release(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPin copies contiguous tensors with a bounded number of goroutines. Their memory is written before, or
// all of it would be one page of zeros.
func BenchmarkPin(b *testing.B) {
	for _, size := range append(slices.Clone(benchSizes), 256<<20) {
		src := written(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(64, size/256)))
		for _, threads := range []int{1, 2, 4, 8, 16} {
			if threads > 1 && (threads > runtime.GOMAXPROCS(0) || size < parallelFrom) {
				break
			}
			b.Run(fmt.Sprintf("size=%s/threads=%d", sizeName(size), threads), func(b *testing.B) {
				benchPin(b, src, WithParallelism(threads))
			})
		}
	}
}

// BenchmarkPinLayout copies what is not contiguous. The figures beside those of layout=contiguous are what Pin's
// documentation says.
func BenchmarkPinLayout(b *testing.B) {
	for _, size := range []int{1 << 20, 64 << 20} {
		floats := func(shape ...int) *tensor.Dense {
			return written(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(shape...)))
		}
		rows := func(n, of int) *tensor.Dense { return slice(b, floats(size/4/n, of), nil, tensor.S(0, n)) }
		turned := func(d *tensor.Dense, axes ...int) *tensor.Dense {
			if err := d.T(axes...); err != nil {
				b.Fatal(err)
			}
			return d
		}
		for _, c := range []struct {
			layout string
			t      *tensor.Dense
		}{
			{"contiguous", floats(size/4096, 1024)},
			{"rows_4KiB_of_8KiB", rows(1024, 2048)},
			{"rows_256B_of_512B", rows(64, 128)},
			{"rows_32B_of_64B", rows(8, 16)},
			{"transposed", turned(floats(size/4096, 1024))},
			{"NHWC_to_NCHW_3", turned(floats(size/4/(64*64*3), 64, 64, 3), 0, 3, 1, 2)},
			{"NHWC_to_NCHW_64", turned(floats(size/4/(32*32*64), 32, 32, 64), 0, 3, 1, 2)},
		} {
			b.Run(fmt.Sprintf("size=%s/layout=%s", sizeName(size), c.layout), func(b *testing.B) { benchPin(b, c.t) })
		}
	}
}

func benchPin(b *testing.B, src *tensor.Dense, opts ...Option) {
	b.Helper()
	e := benchEngine(b, opts...)
	if err := e.Reserve(b.Context(), int64(src.Shape().TotalSize())*int64(src.Dtype().Size()), 1); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(src.Shape().TotalSize()) * int64(src.Dtype().Size()))
	b.ReportAllocs()
	for b.Loop() {
		d, err := e.Pin(src)
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Release(d); err != nil {
			b.Fatal(err)
		}
	}
}

// written writes to every page of d.
func written(d *tensor.Dense) *tensor.Dense {
	for i := range d.Raw {
		d.Raw[i] = byte(i)
	}
	return d
}

// BenchmarkAcquire is what a copy pays to be safe: find the block by address, hold it, and let the copy
// have it.
func BenchmarkAcquire(b *testing.B) {
	for _, blocks := range []int{1, 1000} {
		b.Run(fmt.Sprintf("blocks=%d", blocks), func(b *testing.B) {
			e := benchEngine(b)
			all := make([]*tensor.Dense, blocks)
			for i := range all {
				var err error
				if all[i], err = e.New(tensor.Float32, 16); err != nil {
					b.Fatal(err)
				}
			}
			w := newWork()
			w.complete()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				h, err := Acquire(all[i%blocks])
				if err != nil {
					b.Fatal(err)
				}
				h.Until(w)
				i++
			}
			for _, d := range all {
				if err := e.Release(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEnsurePinned is what a program pays that pins nothing twice.
func BenchmarkEnsurePinned(b *testing.B) {
	e := benchEngine(b)
	d, err := e.New(tensor.Float32, 64, 784)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.EnsurePinned(d); err != nil {
			b.Fatal(err)
		}
	}
	if err := e.Release(d); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCold makes blocks that the cache does not have, and gives them up. The heap has the memory of the block
// before still, full of what was in it; only the first time the system gives new memory.
func BenchmarkCold(b *testing.B) {
	for _, size := range append(slices.Clone(benchSizes), 256<<20, 1<<30) {
		b.Run("size="+sizeName(size), func(b *testing.B) {
			e := benchEngine(b)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				d, err := e.New(tensor.Float32, size/4)
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Release(d); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Trim(0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
