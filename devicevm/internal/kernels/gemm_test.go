package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestProduct(t *testing.T) { each(t, testProduct[float32], testProduct[float64]) }

func testProduct[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	kernels := map[string]uint32{"product_small": 32, "product_large": 64}
	if suffix[T]() == "_f32" {
		kernels["product_large"] = 128
	}
	for _, c := range []struct{ batch, m, n, k, splits, extra uint32 }{
		{1, 1, 1, 1, 1, 0}, {1, 64, 10, 100, 1, 0}, {1, 33, 130, 17, 1, 3}, {3, 5, 7, 16, 1, 0}, {2, 40, 20, 100, 3, 1}, {1, 129, 65, 31, 2, 0},
	} {
		for transposed := range uint32(4) {
			ta, tb := transposed&1, transposed>>1
			rowsA, colsA, rowsB, colsB := c.m, c.k, c.k, c.n
			if ta == 1 {
				rowsA, colsA = colsA, rowsA
			}
			if tb == 1 {
				rowsB, colsB = colsB, rowsB
			}
			p := Product{M: c.m, N: c.n, K: c.k, TransposeA: ta, TransposeB: tb,
				RowA: colsA + c.extra, RowB: colsB + c.extra, RowC: c.n + c.extra, Splits: c.splits, Depth: (c.k + c.splits - 1) / c.splits}
			p.BatchA, p.BatchB, p.BatchC = uint64(rowsA*p.RowA), uint64(rowsB*p.RowB), uint64(c.m*p.RowC)
			p.SplitC = p.BatchC * uint64(c.batch)
			a, b := random[T](rng, int(p.BatchA)*int(c.batch)), random[T](rng, int(p.BatchB)*int(c.batch))
			want := make([]float64, int(p.SplitC)*int(c.splits))
			at := func(x []T, batch uint64, row, transpose, i, j uint32) float64 {
				if transpose == 1 {
					i, j = j, i
				}
				return float64(x[batch+uint64(i)*uint64(row)+uint64(j)])
			}
			for q := range uint64(c.batch) {
				for i := range c.m {
					for j := range c.n {
						for k := range c.k {
							want[uint64(k/p.Depth)*p.SplitC+q*p.BatchC+uint64(i*p.RowC+j)] +=
								at(a, q*p.BatchA, p.RowA, ta, i, k) * at(b, q*p.BatchB, p.RowB, tb, k, j)
						}
					}
				}
			}
			for kernel, tile := range kernels {
				got := make([]T, len(want))
				run(t, kernel+suffix[T](), [3]uint32{(c.n + tile - 1) / tile * ((c.m + tile - 1) / tile), c.batch * c.splits, 1}, a, b, got, &p)
				compare(t, fmt.Sprintf("%s %+v", kernel, p), got, want)
			}
		}
	}
}
