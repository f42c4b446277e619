package pintensor

// This file measures many goroutines that have memory from one engine. The figures are of all of them together: what does
// not get less with more goroutines, up to the number of cores, has something in common that they wait for.

import (
	"fmt"
	"sync"
	"testing"

	"gorgonia.org/tensor"
)

var benchGoroutines = []int{1, 4, 16}

// inParallel runs op b.N times, on that many goroutines, whose number it is given.
func inParallel(b *testing.B, goroutines int, op func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range (b.N + g) / goroutines {
				if err := op(g); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkNewReleaseParallel takes blocks from the cache and gives them back, each goroutine its own.
func BenchmarkNewReleaseParallel(b *testing.B) {
	for _, g := range benchGoroutines {
		b.Run(fmt.Sprintf("goroutines=%d", g), func(b *testing.B) {
			e := benchEngine(b)
			inParallel(b, g, func(int) error {
				d, err := e.New(tensor.Float32, 16, 16)
				if err != nil {
					return err
				}
				return e.Release(d)
			})
		})
	}
}

// BenchmarkBufferParallel is the same without the tensor: what the cache costs. With sizes=mixed each is of another size
// than the last, from 256 bytes to 16 KiB, so that goroutines lack what others have.
func BenchmarkBufferParallel(b *testing.B) {
	for _, c := range []struct {
		sizes string
		of    []int64
	}{
		{"1KiB", []int64{1 << 10}},
		{"mixed", []int64{256, 4 << 10, 1 << 10, 16 << 10, 700, 9000, 300, 3000}},
	} {
		for _, g := range benchGoroutines {
			b.Run(fmt.Sprintf("sizes=%s/goroutines=%d", c.sizes, g), func(b *testing.B) {
				e := benchEngine(b)
				var turns [16]struct {
					n int
					_ [120]byte
				}
				inParallel(b, g, func(i int) error {
					turns[i].n++
					f, err := e.AllocBuffer(c.of[(turns[i].n+i)%len(c.of)])
					if err != nil {
						return err
					}
					return f.Release()
				})
			})
		}
	}
}

// BenchmarkDense makes tensors in memory that is there: what New costs beside the cache. by=pintensor is how New does it,
// by=tensor is tensor.New.
func BenchmarkDense(b *testing.B) {
	p, err := prototypeOf(tensor.Float32)
	if err != nil {
		b.Fatal(err)
	}
	var made [16]struct {
		d *tensor.Dense // not on the goroutine's stack
		_ [120]byte
	}
	for _, by := range []struct {
		who  string
		make func(mem []byte, floats []float32) *tensor.Dense
	}{
		{"pintensor", func(mem []byte, _ []float32) *tensor.Dense { return p.dense(mem, []int{16, 16}) }},
		{"tensor", func(_ []byte, floats []float32) *tensor.Dense {
			return tensor.New(tensor.WithShape(16, 16), tensor.WithBacking(floats))
		}},
	} {
		for _, g := range benchGoroutines {
			b.Run(fmt.Sprintf("by=%s/goroutines=%d", by.who, g), func(b *testing.B) {
				mem, floats := make([]byte, 1<<10), make([]float32, 256)
				inParallel(b, g, func(i int) error {
					made[i].d = by.make(mem, floats)
					return nil
				})
			})
		}
	}
}
