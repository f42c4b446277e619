package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestProduct(t *testing.T) { each(t, testProduct[float32], testProduct[float64]) }

func testProduct[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	type shape struct {
		batch, m, n, k, splits, extra uint32
		kind                          string
	}
	for _, c := range []shape{
		{1, 1, 1, 1, 1, 0, ""}, {1, 64, 10, 100, 1, 0, ""}, {1, 33, 130, 17, 1, 3, ""}, {3, 5, 8, 16, 1, 0, ""}, {1, 40, 68, 72, 2, 0, ""},
		{2, 20, 12, 140, 12, 4, ""}, {3, 20, 18, 9, 1, 0, "one b"}, {5, 9, 18, 13, 2, 0, "sum"}, {3, 9, 18, 20, 1, 0, "sum"}, {3, 20, 9, 13, 1, 0, "places"}, {3, 20, 9, 13, 1, 0, "places of a"},
		{3, 9, 18, 20, 1, 0, "places of k"}, {7, 20, 9, 13, 2, 0, "places of k"}, {3, 9, 18, 76, 2, 0, "places of k"},
	} {
		for transposed := range uint32(4) {
			ta, tb := transposed&1, transposed>>1
			rowsA, rowA, rowsB, rowB := c.m, c.k, c.k, c.n
			if ta == 1 {
				rowsA, rowA = rowA, rowsA
			}
			if tb == 1 {
				rowsB, rowB = rowB, rowsB
			}
			rowA, rowB = rowA+c.extra, rowB+c.extra
			stepA, stepB, stepC := rowsA*rowA, rowsB*rowB, c.m*c.n // between the matrices of the batch
			batch, images := c.batch, uint32(1)
			switch c.kind {
			case "one b":
				stepB = 0
			case "places":
				if tb == 0 {
					continue // the images' columns are not one matrix's
				}
				stepA = 0
			case "places of a":
				if ta == 0 {
					continue
				}
				stepB = 0
			case "places of k":
				if ta == 1 || tb == 1 {
					continue
				}
				batch, stepC = 1, 0
			case "sum":
				batch, images, stepC = 1, c.batch, 0
			}
			a, b := random[T](rng, int(c.batch*rowsA*rowA)), random[T](rng, int(c.batch*rowsB*rowB))
			want := make([]float64, batch*c.m*c.n)
			for q := range c.batch {
				product(want[q*stepC:], a[q*stepA:], b[q*stepB:], c.m, c.n, c.k, rowA, rowB, ta == 1, tb == 1)
			}
			aligned := func(row uint32) uint32 {
				if row%4 == 0 {
					return 1
				}
				return 0
			}
			for i, kernel := range Products(unsafe.Sizeof(T(0)) == 8) {
				if want := []string{"product_tiny", "product_small", "product_medium", "product_large"}[i]; kernel.Name != want {
					t.Fatalf("kernel %d is %s, want %s", i, kernel.Name, want)
				}
				m, n, k, matrices, places := c.m, c.n, c.k, batch, Divisor{}
				placesA := uint32(0)
				switch c.kind {
				case "places":
					n, matrices, places = n*batch, 1, NewDivisor(n)
				case "places of k":
					k, places, placesA = k*c.batch, NewDivisor(k), 1
				case "places of a":
					m, matrices, places, placesA = m*batch, 1, NewDivisor(m), 1
				}
				depth := (k + c.splits - 1) / c.splits
				if c.splits > 1 { // of whole quads
					depth = (depth + 3) / 4 * 4
				}
				if images > 1 {
					depth = (images + c.splits - 1) / c.splits
				}
				if kernel.Plain {
					depth = max(k, images)
				}
				p := Product{BatchA: uint64(stepA), BatchB: uint64(stepB), M: m, N: n, K: k, RowA: rowA, RowB: rowB, TransposeA: ta, TransposeB: tb,
					VectorsA: aligned(rowA), VectorsB: aligned(rowB), Images: images, PlacesA: placesA, Places: places}
				tiles := p.Divide(kernel, matrices, depth)
				blocks := tiles * p.Splits.By
				got, partial, arrived := make([]T, len(want)), make([]T, blocks*kernel.Rows*kernel.Columns), make([]int32, tiles)
				for i := range partial {
					partial[i] = T(rng.NormFloat64()) // what was there before
				}
				product := func(e *Expression) {
					p.Then = *e
					run(t, kernel.Name+suffix[T](), [3]uint32{blocks, 1, 1}, a, b, partial, arrived, &p)
				}
				what := fmt.Sprintf("%s %+v transposed %d", kernel.Name, c, transposed)
				for range 2 { // the counters are as they were
					clear(got)
					product(expression(t, nil, nil, address(t, got)))
					compare(t, what, got, want)
				}
				if !kernel.Plain {
					positive, bias := make([]T, len(want)), random[T](rng, int(c.n))
					product(expression(t, []Operand{NewOperand(address(t, bias), len(want), 1, int(batch*c.m), int(c.n)), {Data: address(t, []T{0})}}, []Instruction{
						{Op: Add, X: Previous, Y: 0, Keep: 1, Store: 1}, {Op: Gte, X: Previous, Y: 1}, {Op: Mul, X: Previous, Y: Kept, Store: 2},
					}, address(t, got), address(t, positive)))
					sums, rectified := make([]float64, len(want)), make([]float64, len(want))
					for i, x := range want {
						sums[i] = x + float64(bias[i%int(c.n)])
						rectified[i] = max(sums[i], 0)
					}
					compare(t, what+": sums", got, sums)
					compare(t, what+": rectified", positive, rectified)
				}
				for i, n := range arrived {
					if n != 0 {
						t.Errorf("%s: counter %d is left at %d", what, i, n)
					}
				}
			}
		}
	}
}

// product is c = a b.
func product[T float](c []float64, a, b []T, m, n, k, rowA, rowB uint32, transA, transB bool) {
	at := func(x []T, row uint32, transposed bool, i, j uint32) float64 {
		if transposed {
			i, j = j, i
		}
		return float64(x[i*row+j])
	}
	for i := range m {
		for j := range n {
			for l := range k {
				c[i*n+j] += at(a, rowA, transA, i, l) * at(b, rowB, transB, l, j)
			}
		}
	}
}
