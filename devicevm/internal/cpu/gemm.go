package cpu

// This file multiplies matrices: by panels that are packed in the order in which a kernel in assembly reads them, after
// Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). gonum, which Gorgonia uses by
// default, has no such kernel and is several times slower.
//
// How many cores take part does not change the result: each element of C is summed in the same order.

import (
	"sync"
)

// The kernels compute tiles of so many rows and columns.
const (
	tileRows   = 6
	tileCols32 = 16
	tileCols64 = 8
)

// What is packed at once: the panels of B are for the second-level cache, those of A for the first.
const (
	depth     = 256
	blockRows = 16 * tileRows
	blockCols = 512
)

// matrix is a matrix with any steps between rows and columns.
type matrix[T float] struct {
	v                []T
	rowStep, colStep int
}

// product is c += a x b: m x n, of depth k. c is row-major and ldc wide.
type product[T float] struct {
	m, n, k int
	a, b    matrix[T]
	c       []T
	ldc     int
}

// workspace is what one core packs into.
type workspace[T float] struct {
	a, b []T
	tile []T
}

var (
	workspaces32 = sync.Pool{New: func() any { return newWorkspace[float32]() }}
	workspaces64 = sync.Pool{New: func() any { return newWorkspace[float64]() }}
)

func newWorkspace[T float]() *workspace[T] {
	return &workspace[T]{a: make([]T, blockRows*depth), b: make([]T, blockCols*depth), tile: make([]T, tileRows*tileCols32)}
}

// kernelOf returns the kernel, its columns and the workspaces for T.
func kernelOf[T float]() (kernel func(k int, a, b, c *T, ldc int), cols int, pool *sync.Pool) {
	if f, ok := any(kernel32).(func(k int, a, b, c *T, ldc int)); ok {
		return f, tileCols32, &workspaces32
	}
	return any(kernel64).(func(k int, a, b, c *T, ldc int)), tileCols64, &workspaces64
}

// newProduct is op(a) x op(b), of contiguous matrices.
func newProduct[T float](transA, transB bool, m, n, k int, a, b, c []T) product[T] {
	p := product[T]{m: m, n: n, k: k, a: matrix[T]{a, k, 1}, b: matrix[T]{b, n, 1}, c: c, ldc: n}
	if transA {
		p.a = matrix[T]{a, 1, m}
	}
	if transB {
		p.b = matrix[T]{b, 1, k}
	}
	return p
}

// vectorGemm is gemm by the kernels.
func vectorGemm[T float](transA, transB bool, m, n, k int, a, b, c []T) {
	clear(c)
	p := newProduct(transA, transB, m, n, k, a, b, c)
	p.divide(2*m*n*k, (*product[T]).multiply)
}

// divide calls f for parts of a product of so many operations, on several cores if there are enough.
func (p product[T]) divide(flops int, f func(part *product[T])) {
	_, cols, _ := kernelOf[T]()
	if p.m*cols >= p.n*tileRows {
		panels := (p.m + tileRows - 1) / tileRows
		parallel(panels, max(share/max(flops/panels, 1), 1), func(lo, hi int) {
			f(p.rows(lo*tileRows, min(hi*tileRows, p.m)))
		})
		return
	}
	panels := (p.n + cols - 1) / cols
	parallel(panels, max(share/max(flops/panels, 1), 1), func(lo, hi int) {
		f(p.columns(lo*cols, min(hi*cols, p.n)))
	})
}

// vectorGemms is so many products, of matrices as many elements apart as the steps say; a stepC of 0 adds them up.
func vectorGemms[T float](transA, transB bool, m, n, k, products, stepA, stepB, stepC int, a, b, c []T) {
	clear(c)
	if stepC == 0 {
		p := newProduct(transA, transB, m, n, k, a, b, c)
		p.divide(2*m*n*k*products, func(part *product[T]) {
			for range products {
				part.multiply()
				part.a.v, part.b.v = part.a.v[min(stepA, len(part.a.v)):], part.b.v[min(stepB, len(part.b.v)):]
			}
		})
		return
	}
	parallel(products, max(share/max(2*m*n*k, 1), 1), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			p := newProduct(transA, transB, m, n, k, a[i*stepA:], b[i*stepB:], c[i*stepC:])
			p.multiply()
		}
	})
}

// share is how many operations make another core worth while: some 20 µs of them.
const share = 1 << 20

// rows returns the part of a product that gives some rows of c.
func (p product[T]) rows(lo, hi int) *product[T] {
	p.a.v, p.c, p.m = p.a.v[lo*p.a.rowStep:], p.c[lo*p.ldc:], hi-lo
	return &p
}

// columns returns the part of a product that gives some columns of c.
func (p product[T]) columns(lo, hi int) *product[T] {
	p.b.v, p.c, p.n = p.b.v[lo*p.b.colStep:], p.c[lo:], hi-lo
	return &p
}

// multiply computes the product on one core.
func (p *product[T]) multiply() {
	kernel, cols, pool := kernelOf[T]()
	w := pool.Get().(*workspace[T])
	defer pool.Put(w)
	for j := 0; j < p.n; j += blockCols {
		width := min(blockCols, p.n-j)
		for q := 0; q < p.k; q += depth {
			deep := min(depth, p.k-q)
			pack(w.b, p.b.v[q*p.b.rowStep+j*p.b.colStep:], p.b.colStep, p.b.rowStep, width, deep, cols)
			for i := 0; i < p.m; i += blockRows {
				height := min(blockRows, p.m-i)
				pack(w.a, p.a.v[i*p.a.rowStep+q*p.a.colStep:], p.a.rowStep, p.a.colStep, height, deep, tileRows)
				p.block(kernel, cols, w, i, j, height, width, deep)
			}
		}
	}
}

// block adds the product of what is packed to the block of c at i, j.
func (p *product[T]) block(kernel func(k int, a, b, c *T, ldc int), cols int, w *workspace[T], i, j, height, width, deep int) {
	for jj := 0; jj < width; jj += cols {
		b := &w.b[jj*deep]
		for ii := 0; ii < height; ii += tileRows {
			a, at := &w.a[ii*deep], (i+ii)*p.ldc+j+jj
			if height-ii >= tileRows && width-jj >= cols {
				kernel(deep, a, b, &p.c[at], p.ldc)
				continue
			}
			clear(w.tile)
			kernel(deep, a, b, &w.tile[0], cols)
			for r := range min(tileRows, height-ii) {
				row := p.c[at+r*p.ldc:][:min(cols, width-jj)]
				for x, v := range w.tile[r*cols:][:len(row)] {
					row[x] += v
				}
			}
		}
	}
}

// pack copies lines, that are lineStep apart and whose elements are step apart, into panels of so many lines: the
// first element of each line of the panel, the second of each, and so on. A panel that is not full is filled with 0.
func pack[T float](dst, src []T, lineStep, step, lines, deep, panel int) {
	for l := 0; l < lines; l += panel {
		to := dst[l*deep : (l+panel)*deep]
		here := min(panel, lines-l)
		switch {
		case lineStep == 1 && here == panel: // rows of B as they lie
			for q := range deep {
				copy(to[q*panel:(q+1)*panel], src[q*step+l:])
			}
		case step == 1 && here == panel && panel == tileRows:
			pack6(to, src[l*lineStep:], lineStep, deep)
		case step == 1 && here == panel: // of 8 or 16
			for x := 0; x < panel; x += 8 {
				pack8(to[x:], src[(l+x)*lineStep:], lineStep, deep, panel)
			}
		default:
			clear(to)
			for q := range deep {
				for x := range here {
					to[q*panel+x] = src[(l+x)*lineStep+q*step]
				}
			}
		}
	}
}

// pack6 interleaves 6 lines as they lie.
func pack6[T float](to, src []T, lineStep, deep int) {
	r0, r1, r2 := src[:deep], src[lineStep:][:deep], src[2*lineStep:][:deep]
	r3, r4, r5 := src[3*lineStep:][:deep], src[4*lineStep:][:deep], src[5*lineStep:][:deep]
	for q := range deep {
		d := to[q*6 : q*6+6 : q*6+6]
		d[0], d[1], d[2], d[3], d[4], d[5] = r0[q], r1[q], r2[q], r3[q], r4[q], r5[q]
	}
}

// pack8 interleaves 8 lines as they lie into a panel.
func pack8[T float](to, src []T, lineStep, deep, panel int) {
	r0, r1, r2, r3 := src[:deep], src[lineStep:][:deep], src[2*lineStep:][:deep], src[3*lineStep:][:deep]
	r4, r5, r6, r7 := src[4*lineStep:][:deep], src[5*lineStep:][:deep], src[6*lineStep:][:deep], src[7*lineStep:][:deep]
	for q := range deep {
		d := to[q*panel : q*panel+8 : q*panel+8]
		d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7] = r0[q], r1[q], r2[q], r3[q], r4[q], r5[q], r6[q], r7[q]
	}
}
