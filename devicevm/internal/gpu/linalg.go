package gpu

// This file compiles products of matrices and vectors.

import (
	"slices"

	"github.com/pintensor/pin/devicevm/internal/cublas"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// product is C = A B of contiguous row-major matrices, in a batch of 0 for one.
type product struct {
	transA, transB bool
	m, n, k        int
	rowA, rowB     int
	batch          int
}

func (b *builder) matMul(s *plan.Step, op graph.MatMul, shape []int) {
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
	double := out.Dtype == tensor.Float64
	if b.blas && !quick(p, double) {
		b.multiply(cublas.Product{
			Float64: double, TransposeA: p.transA, TransposeB: p.transB, M: p.m, N: p.n, K: p.k,
			A: b.mem.At(x), B: b.mem.At(y), C: b.mem.At(out), RowA: p.rowA, RowB: p.rowB, RowC: p.n,
			Batch: p.batch, BatchA: p.m * p.k, BatchB: p.k * p.n, BatchC: p.m * p.n,
		})
		return
	}
	e, _ := kernels.NewExpression(nil, nil, uint64(b.mem.At(out)))
	b.ownProduct(p, x, y, out.Dtype, e)
}

// busy is about how many blocks keep a large device busy.
const busy = 264

// tiling is how the kernels divide a product. It depends on nothing but the shape: two devices give the same bits.
type tiling struct {
	kernel        kernels.ProductKernel
	splits, depth int
}

// tilingOf is a variable for the benchmarks.
var tilingOf = func(p product, double bool) tiling {
	list := kernels.Products(double)
	for _, k := range slices.Backward(list[1:]) {
		if tiles(p, k) >= busy/2 {
			return split(p, k, 1)
		}
	}
	return split(p, list[0], min(busy/2/tiles(p, list[0]), p.k/256))
}

// quick reports whether our kernel is quicker than cuBLAS. It is a variable for the benchmarks.
var quick = func(p product, double bool) bool { return false }

// tiles is how many tiles the results have.
func tiles(p product, k kernels.ProductKernel) int {
	rows, columns := int(k.Rows), int(k.Columns)
	return p.batch * ((p.m + rows - 1) / rows) * ((p.n + columns - 1) / columns)
}

// split divides k among blocks, in parts of whole chunks.
func split(p product, k kernels.ProductKernel, parts int) tiling {
	chunk := int(k.Chunk)
	chunks := (p.k + chunk - 1) / chunk
	parts = max(min(parts, chunks), 1)
	depth := (chunks + parts - 1) / parts * chunk
	return tiling{k, (p.k + depth - 1) / depth, depth}
}

// ownProduct is a product by the kernels, and what e makes of it.
func (b *builder) ownProduct(p product, x, y plan.Value, dt tensor.Dtype, e kernels.Expression) {
	t := tilingOf(p, dt == tensor.Float64)
	count, size := tiles(p, t.kernel), int64(dt.Size())
	partial, arrived := number(0), number(0)
	if t.splits > 1 {
		partial, _ = b.reserve(0, int64(count*t.splits)*int64(t.kernel.Rows*t.kernel.Columns)*size)
		arrived = put(b, make([]uint32, count)...)
	}
	batchA, batchB := p.m*p.k, p.k*p.n
	vectors := func(v plan.Value, row, batch int) argument {
		return flag(row%4 == 0 && (p.batch == 1 || batch%4 == 0) && b.mem.At(v)%16 == 0)
	}
	args := []argument{
		ref(b.mem.At(x)), ref(b.mem.At(y)), partial, arrived, number(p.m), number(p.n), number(p.k), number(p.rowA), number(p.rowB),
		number(batchA), number(batchB), number(t.splits), number(t.depth), flag(p.transA), flag(p.transB),
		vectors(x, p.rowA, batchA), vectors(y, p.rowB, batchB),
	}
	b.launch(t.kernel.Name, dt, blocks(count*t.splits), append(args, words(&e)...)...)
}
