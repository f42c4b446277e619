package gpu

// This file measures products on a GPU, by each kernel and by cuBLAS: what [quick] and [tilingOf] go by.

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// products are those of the networks of examples/mnist, for batches of 64 and 256, and large ones.
var products = []product{
	{m: 64, n: 300, k: 784}, {m: 64, n: 100, k: 300}, {m: 64, n: 10, k: 100},
	{m: 64, n: 300, k: 100, transB: true}, {m: 64, n: 100, k: 10, transB: true},
	{m: 784, n: 300, k: 64, transA: true}, {m: 300, n: 100, k: 64, transA: true}, {m: 100, n: 10, k: 64, transA: true},
	{m: 256, n: 300, k: 784}, {m: 256, n: 100, k: 300}, {m: 256, n: 10, k: 100},
	{m: 256, n: 300, k: 100, transB: true}, {m: 256, n: 100, k: 10, transB: true},
	{m: 784, n: 300, k: 256, transA: true}, {m: 300, n: 100, k: 256, transA: true}, {m: 100, n: 10, k: 256, transA: true},
	{m: 64, n: 10, k: 784}, {m: 64, n: 784, k: 10, transB: true}, {m: 784, n: 10, k: 64, transA: true},
	{m: 32, n: 784, k: 9, transB: true, batch: 64}, {m: 64, n: 196, k: 288, transB: true, batch: 64}, {m: 128, n: 49, k: 576, transB: true, batch: 64},
	{m: 196, n: 288, k: 64, transA: true, batch: 64}, {m: 49, n: 576, k: 128, transA: true, batch: 64},
	{m: 32, n: 9, k: 784, batch: 64, sum: true}, {m: 64, n: 288, k: 196, batch: 64, sum: true}, {m: 128, n: 576, k: 49, batch: 64, sum: true},
	{m: 64, n: 196, k: 288, transB: true, batch: 256}, {m: 128, n: 49, k: 576, transB: true, batch: 256},
	{m: 196, n: 288, k: 64, transA: true, batch: 256}, {m: 49, n: 576, k: 128, transA: true, batch: 256},
	{m: 64, n: 288, k: 196, batch: 256, sum: true}, {m: 128, n: 576, k: 49, batch: 256, sum: true},
	{m: 64, n: 625, k: 1152}, {m: 64, n: 10, k: 625}, {m: 64, n: 625, k: 10, transB: true}, {m: 64, n: 1152, k: 625, transB: true},
	{m: 1152, n: 625, k: 64, transA: true}, {m: 625, n: 10, k: 64, transA: true},
	{m: 1024, n: 1024, k: 1024}, {m: 4096, n: 4096, k: 4096}, {m: 1024, n: 1024, k: 1024, transB: true}, {m: 1024, n: 1024, k: 1024, transA: true},
}

func (p product) String() string {
	name := func(t bool) string {
		if t {
			return "t"
		}
		return "n"
	}
	kind := ""
	switch {
	case p.sum:
		kind = fmt.Sprintf("/sum of %d", p.batch)
	case p.batch > 1:
		kind = fmt.Sprintf("/batch of %d", p.batch)
	}
	return fmt.Sprintf("%dx%dx%d/%s%s%s", p.m, p.n, p.k, name(p.transA), name(p.transB), strings.ReplaceAll(kind, " ", "-"))
}

// openGPU opens the first GPU. Without one the benchmark is skipped, but fails under REQUIRE_GPU.
func openGPU(b *testing.B) *asynccopy.Stream {
	b.Helper()
	dev, err := asynccopy.Open(0)
	if errors.Is(err, asynccopy.ErrUnavailable) && os.Getenv("REQUIRE_GPU") == "" {
		b.Skip(err)
	}
	must(b, err)
	s, err := dev.NewStream()
	must(b, err)
	b.Cleanup(func() {
		must(b, s.Close())
		must(b, dev.Close())
	})
	return s
}

func boolean(x bool) int {
	if x {
		return 1
	}
	return 0
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkProduct is a product of float32 in a captured graph of many. The metric is of one.
func BenchmarkProduct(b *testing.B) {
	s := openGPU(b)
	m, err := Open(s)
	must(b, err)
	b.Cleanup(func() { must(b, m.Close()) })
	x, err := s.Empty(tensor.Float32, 3*4096*4096)
	must(b, err)
	b.Cleanup(func() { must(b, x.Release()) })
	mem := Memory{Inputs: []driver.DevicePtr{driver.DevicePtr(x.DevicePtr())}}
	for _, p := range products {
		sum := p.sum
		p = contiguous(p.transA, p.transB, p.m, p.n, p.k, max(p.batch, 1))
		if p.sum = sum; p.batch > 1 && !sum { // as a convolution's weights
			p.stepB *= boolean(!p.transA)
			p.stepA *= boolean(p.transA)
		}
		if m.blas != nil && !sum {
			b.Run(fmt.Sprintf("%v/by=cublas", p), func(b *testing.B) { benchmarkProduct(b, m, mem, p, nil) })
		}
		b.Run(fmt.Sprintf("%v/by=own", p), func(b *testing.B) { benchmarkProduct(b, m, mem, p, tilingOf) })
		if p.m*p.n*p.k*p.batch > 1<<29 {
			continue
		}
		for _, k := range kernels.Products(false) {
			for _, parts := range []int{1, 2, 4, 8, 16, 32, 64, 128} {
				t := split(p.joined(), k, parts)
				blocks := tiles(p.joined(), k) * parts
				if t.splits != parts || parts > 1 && (k.Plain || blocks > 2*busy) || blocks > 4000 && !k.Plain {
					continue
				}
				b.Run(fmt.Sprintf("%v/by=%s/parts=%d", p, k.Name, parts), func(b *testing.B) {
					benchmarkProduct(b, m, mem, p, func(product, bool) tiling { return t })
				})
			}
		}
	}
}

// benchmarkProduct takes cuBLAS for a nil of.
func benchmarkProduct(b *testing.B, m *Machine, mem Memory, p product, of func(product, bool) tiling) {
	defer func(t func(product, bool) tiling, q func(product, bool) bool) { tilingOf, quick = t, q }(tilingOf, quick)
	quick = func(product, bool) bool { return of != nil }
	if of != nil {
		tilingOf = of
	}
	const most = 4096 * 4096
	op := plan.ImageMatMul{TransA: p.transA, TransB: p.transB, Images: p.batch, One: -1, Sum: p.sum, M: p.m, N: p.n, K: p.k}
	if p.stepA == 0 {
		op.One = 0
	} else if p.stepB == 0 {
		op.One = 1
	}
	step := plan.Step{Op: op, In: []plan.Value{value(0, p.m*p.k), value(most, p.k*p.n)}, Out: value(2*most, p.m*p.n)}
	n := 100
	if flops := p.m * p.n * p.k * p.batch; flops > 1<<29 {
		n = 2
	}
	prog := &plan.Program{}
	for range n {
		prog.Steps = append(prog.Steps, step)
	}
	c, err := m.Compile(prog, mem, false, false)
	must(b, err)
	must(b, m.Run(c, plan.Run{})) // it captures
	must(b, m.Synchronize())
	for b.Loop() {
		must(b, m.Run(c, plan.Run{}))
		must(b, m.Synchronize())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n)/1e3, "µs/product")
	b.ReportMetric(2*float64(p.m*p.n*p.k*p.batch)*float64(b.N*n)/b.Elapsed().Seconds()/1e12, "TFLOPS")
	must(b, m.Free(c))
}
