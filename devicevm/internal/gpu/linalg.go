package gpu

// This file compiles products of matrices and vectors.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/cublas"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// product is C = A B of contiguous row-major matrices, in a batch of 0 for one.
type product struct {
	transA, transB bool
	m, n, k        int
	rowA, rowB     int
	batch          int
}

func (b *builder) matMul(s *plan.Step, op graph.MatMul) {
	shape := s.Out.Shape
	dims := len(shape)
	p := product{transA: op.TransA, transB: op.TransB, m: shape[dims-2], n: shape[dims-1], batch: 1}
	p.rowA, p.rowB = s.In[0].Shape[dims-1], s.In[1].Shape[dims-1]
	p.k = p.rowA
	if op.TransA {
		p.k = s.In[0].Shape[dims-2]
	}
	for _, d := range shape[:dims-2] {
		p.batch *= d
	}
	b.product(p, s.In[0], s.In[1], s.Out)
}

func (b *builder) matVec(s *plan.Step, op graph.MatVec) {
	rows, cols := s.In[0].Shape[0], s.In[0].Shape[1]
	p := product{transA: op.Trans, m: rows, n: 1, k: cols, rowA: cols, rowB: 1}
	if op.Trans {
		p.m, p.k = cols, rows
	}
	b.product(p, s.In[0], s.In[1], s.Out)
}

func (b *builder) product(p product, x, y, out plan.Value) {
	p.batch = max(p.batch, 1)
	if p.k == 0 {
		b.clear(ref(b.mem.At(out)), 0, out.Bytes())
		return
	}
	if b.blas {
		b.multiply(cublas.Product{
			Float64: out.Dtype == tensor.Float64, TransposeA: p.transA, TransposeB: p.transB, M: p.m, N: p.n, K: p.k,
			A: b.mem.At(x), B: b.mem.At(y), C: b.mem.At(out), RowA: p.rowA, RowB: p.rowB, RowC: p.n,
			Batch: p.batch, BatchA: p.m * p.k, BatchB: p.k * p.n, BatchC: p.m * p.n,
		})
		return
	}
	b.ownProduct(p, x, y, out)
}

// longest is how long a grid's second dimension may be. It is a variable for the tests.
var longest = math.MaxUint16

// busy is about how many blocks keep a large device busy.
const busy = 264

// ownProduct is a product by the kernels. Where the tiles of the result are too few for the device, the sum over k is
// divided, and the parts are added up.
func (b *builder) ownProduct(p product, x, y, out plan.Value) {
	name, tile := "product_small", 32
	large := 128
	if out.Dtype == tensor.Float64 {
		large = 64
	}
	tiles := func(tile int) int { return (p.m + tile - 1) / tile * ((p.n + tile - 1) / tile) * p.batch }
	if tiles(large) >= busy/2 {
		name, tile = "product_large", large
	}
	const shallow = 128                                  // a part of k of fewer is not worth it
	splits := max(min(busy/tiles(tile), p.k/shallow), 1) // 1 for a batch of many
	depth := (p.k + splits - 1) / splits
	splits = (p.k + depth - 1) / depth
	size := p.batch * p.m * p.n
	k := kernels.Product{
		M: uint32(p.m), N: uint32(p.n), K: uint32(p.k), RowA: uint32(p.rowA), RowB: uint32(p.rowB), RowC: uint32(p.n),
		BatchA: uint64(p.m * p.k), BatchB: uint64(p.k * p.n), BatchC: uint64(p.m * p.n),
		Splits: uint32(splits), Depth: uint32(depth), SplitC: uint64(size),
	}
	if p.transA {
		k.TransposeA = 1
	}
	if p.transB {
		k.TransposeB = 1
	}
	to := ref(b.mem.At(out))
	if splits > 1 {
		to, _ = b.reserve(0, int64(splits)*out.Bytes())
	}
	at := put(b, k)
	for lo := 0; lo < p.batch; lo += longest {
		n := min(p.batch-lo, longest)
		to := to
		if lo > 0 {
			to = ref(b.element(out, lo*p.m*p.n))
		}
		grid := driver.Dim3{X: uint32((p.n + tile - 1) / tile * ((p.m + tile - 1) / tile)), Y: uint32(n * splits), Z: 1}
		b.launch(name, out.Dtype, grid, ref(b.element(x, lo*p.m*p.k)), ref(b.element(y, lo*p.k*p.n)), to, at)
	}
	if splits > 1 {
		b.pass("sum", out.Dtype, pass{outer: 1, n: splits, inner: size, part: splits, parts: 1}, to, ref(b.mem.At(out)))
	}
}
