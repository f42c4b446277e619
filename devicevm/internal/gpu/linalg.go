package gpu

// This file compiles products of matrices and vectors.

import (
	"github.com/pintensor/pin/devicevm/internal/cublas"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// product is C = A B of row-major matrices, as many of them as batch says, stepA, stepB elements apart: 0 for one that is
// in all. With sum they are added up to one C. C is contiguous.
type product struct {
	transA, transB bool
	m, n, k        int
	rowA, rowB     int
	batch          int
	stepA, stepB   int
	sum            bool
	places         int  // not 0: the columns are (image, place), and C is (image, m, place),
	placesA        bool // or the rows, or if A is not transposed k, is, and the images of A are stepA apart
}

// results is how many there are.
func (p product) results() int {
	if p.sum {
		return 1
	}
	return p.batch
}

// contiguous returns a batch of products of contiguous matrices.
func contiguous(transA, transB bool, m, n, k, batch int) product {
	p := product{transA: transA, transB: transB, m: m, n: n, k: k, rowA: k, rowB: n, batch: batch, stepA: m * k, stepB: k * n}
	if transA {
		p.rowA = m
	}
	if transB {
		p.rowB = k
	}
	return p
}

func matMul(in plan.Value, op graph.MatMul, shape []int) product {
	dims := len(shape)
	k, batch := in.Shape[dims-1], 1
	if op.TransA {
		k = in.Shape[dims-2]
	}
	for _, d := range shape[:dims-2] {
		batch *= d
	}
	return contiguous(op.TransA, op.TransB, shape[dims-2], shape[dims-1], k, batch)
}

func matVec(in plan.Value, op graph.MatVec) product {
	rows, cols := in.Shape[0], in.Shape[1]
	if op.Trans {
		return contiguous(true, false, cols, 1, rows, 1)
	}
	return contiguous(false, false, rows, 1, cols, 1)
}

func imageMatMul(op plan.ImageMatMul) product {
	p := contiguous(op.TransA, op.TransB, op.M, op.N, op.K, op.Images)
	p.sum = op.Sum && op.Images > 1
	switch op.One {
	case 0:
		p.stepA = 0
	case 1:
		p.stepB = 0
	}
	return p
}

// joined returns one product for those of images that have an operand in common, or are added up, so that no tile, nor chunk
// of k, ends where an image does.
func (p product) joined() product {
	switch {
	case p.batch == 1:
	case p.sum && !p.transA && !p.transB && p.stepB == p.n*p.k:
		p.k, p.batch, p.sum, p.places, p.placesA = p.k*p.batch, 1, false, p.k, true
	case p.sum:
	case p.stepA == 0 && p.transB && p.stepB == p.n*p.k:
		p.n, p.batch, p.places = p.n*p.batch, 1, p.n
	case p.stepB == 0 && p.transA && p.m%4 == 0:
		p.m, p.batch, p.places, p.placesA = p.m*p.batch, 1, p.m, true
	}
	return p
}

// product computes p of a step's first two operands, and what its elements then go through, nothing for a nil then. That is
// part of our own kernels; elsewhere it comes after.
func (b *builder) product(p product, s *plan.Step, then *plan.Elementwise) error {
	x, y, out := s.In[0], s.In[1], s.Out
	double := out.Dtype == tensor.Float64
	switch {
	case p.k == 0:
		b.clear(ref(b.mem.At(out)), 0, out.Bytes())
	case b.blas && !p.sum && !quick(p, then != nil):
		b.multiply(cublas.Product{
			Float64: double, TransposeA: p.transA, TransposeB: p.transB, M: p.m, N: p.n, K: p.k,
			A: b.mem.At(x), B: b.mem.At(y), C: b.mem.At(out), RowA: p.rowA, RowB: p.rowB, RowC: p.n,
			Batch: p.batch, BatchA: p.stepA, BatchB: p.stepB, BatchC: p.m * p.n,
		})
	default:
		p = p.joined()
		t := tilingOf(p, double)
		if then == nil || t.kernel.Plain {
			e, err := kernels.NewExpression(nil, nil, uint64(b.mem.At(out)))
			if err != nil {
				return err
			}
			b.ownProduct(p, t, x, y, out.Dtype, &e)
			break
		}
		e, err := b.expression(s, then, s.In[2:])
		if err != nil {
			return err
		}
		b.ownProduct(p, t, x, y, out.Dtype, &e)
		return nil
	}
	if then == nil {
		return nil
	}
	return b.then(s, then)
}

// busy is about how many blocks keep a large device busy.
const busy = 264

// tiling is how the kernels divide a product. It depends on nothing but the shape: two devices give the same bits.
type tiling struct {
	kernel        kernels.ProductKernel
	splits, depth int
}

// tilingOf is a variable for the benchmarks, by whose measurements on an H200 it chooses.
//
// A result of few tiles is made of small ones, whose blocks divide k among their groups, and k is divided among blocks too
// if there are still few and it is long. Larger tiles read less, where they are enough to keep a device busy.
var tilingOf = func(p product, double bool) tiling {
	list := kernels.Products(double)
	tiny, small, medium, large := list[0], list[1], list[2], list[3]
	deep := p.k
	if p.sum {
		deep *= p.batch
	}
	if tiles(p, medium) >= busy/2 {
		// How long the multiprocessor with the most blocks takes. A tile beyond the result's edge costs as much as any.
		rounds := func(k kernels.ProductKernel) int {
			return (tiles(p, k) + busy/2 - 1) / (busy / 2) * int(k.Rows*k.Columns)
		}
		if rounds(large)*9 <= rounds(medium)*10 {
			return split(p, large, 1)
		}
		return split(p, medium, 1)
	}
	if p.m > 16 && p.n > 16 {
		n := tiles(p, small)
		if parts := max(min(busy/n, deep/256), 1); n*parts >= busy/4 {
			return split(p, small, parts)
		}
	}
	return split(p, tiny, min(busy/2/tiles(p, tiny), deep/192))
}

// quick reports whether our kernels are quicker than cuBLAS, for a product whose elements go through more (then) or not: for
// small ones, and for small results of a long k. It is a variable for the benchmarks, by whose measurements it decides.
var quick = func(p product, then bool) bool {
	size := p.m * p.n * p.k * p.batch
	return size <= 1<<26 || then && size <= 1<<28 || p.k >= 8*max(p.m, p.n)
}

// tiles is how many tiles the results have.
func tiles(p product, k kernels.ProductKernel) int {
	rows, columns := int(k.Rows), int(k.Columns)
	return p.results() * ((p.m + rows - 1) / rows) * ((p.n + columns - 1) / columns)
}

// split divides k among blocks, in parts of whole chunks; the products of a sum, if p is one.
func split(p product, k kernels.ProductKernel, parts int) tiling {
	chunk, n := int(k.Chunk), p.k
	if p.sum {
		chunk, n = 1, p.batch
	}
	chunks := (n + chunk - 1) / chunk
	parts = max(min(parts, chunks), 1)
	depth := (chunks + parts - 1) / parts * chunk
	return tiling{k, (n + depth - 1) / depth, depth}
}

// ownProduct is a product by a kernel, and what e makes of it.
func (b *builder) ownProduct(p product, t tiling, x, y plan.Value, dt tensor.Dtype, e *kernels.Expression) {
	bit := func(on bool) uint32 {
		if on {
			return 1
		}
		return 0
	}
	vectors := func(v plan.Value, row, step int) uint32 {
		return bit(row%4 == 0 && (p.batch == 1 && p.places == 0 || step%4 == 0) && b.mem.At(v)%16 == 0)
	}
	k := kernels.Product{
		BatchA: uint64(p.stepA), BatchB: uint64(p.stepB), M: uint32(p.m), N: uint32(p.n), K: uint32(p.k), RowA: uint32(p.rowA), RowB: uint32(p.rowB),
		TransposeA: bit(p.transA), TransposeB: bit(p.transB), VectorsA: vectors(x, p.rowA, p.stepA), VectorsB: vectors(y, p.rowB, p.stepB),
		Images: 1, PlacesA: bit(p.placesA), Then: *e,
	}
	if p.sum {
		k.Images = uint32(p.batch)
	}
	if p.places > 0 {
		k.Places = kernels.NewDivisor(uint32(p.places))
	}
	tiles := int(k.Divide(t.kernel, uint32(p.results()), uint32(t.depth)))
	partial, arrived := number(0), number(0)
	if t.splits > 1 {
		partial, _ = b.reserve(0, int64(tiles*t.splits)*int64(t.kernel.Rows*t.kernel.Columns)*int64(dt.Size()))
		arrived = put(b, make([]uint32, tiles)...)
	}
	b.launch(t.kernel.Name, dt, blocks(tiles*t.splits), append([]argument{ref(b.mem.At(x)), ref(b.mem.At(y)), partial, arrived}, words(&k)...)...)
}
