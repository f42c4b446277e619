package pintensor

import (
	"fmt"
	"runtime"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/drivertest"
)

var benchSizes = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20}

func sizeName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}

// benchEngine locks through a fake, so that what is measured is the engine, and small limits don't matter.
func benchEngine(b *testing.B) *Engine {
	b.Helper()
	e, err := NewEngine(WithDriver(drivertest.NewFaultyHost(&fakeHost{name: "cuda"})))
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

func BenchmarkNewReleaseParallel(b *testing.B) {
	for _, g := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("goroutines=%d", g), func(b *testing.B) {
			e := benchEngine(b)
			b.SetParallelism(max(1, g/runtime.GOMAXPROCS(0)))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					d, err := e.New(tensor.Float32, 16, 16)
					if err != nil {
						b.Error(err)
						return
					}
					if err := e.Release(d); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkPin(b *testing.B) {
	for _, size := range benchSizes {
		src := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(64, size/256))
		transposed := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(64, size/256))
		if err := transposed.T(); err != nil {
			b.Fatal(err)
		}
		for layout, t := range map[string]*tensor.Dense{"contiguous": src, "transposed": transposed} {
			b.Run(fmt.Sprintf("size=%s/layout=%s", sizeName(size), layout), func(b *testing.B) {
				e := benchEngine(b)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					d, err := e.Pin(t)
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

// BenchmarkCold makes blocks that the cache does not have, and gives them up.
func BenchmarkCold(b *testing.B) {
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
				if _, err := e.Trim(0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
