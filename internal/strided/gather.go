package strided

import "unsafe"

// This file walks a layout. The innermost axis is a row; whole rows that follow each other are copied
// together, so that a transposed matrix can be walked in tiles.

// tile is the side, in elements, of the square in which a matrix is copied whose rows are columns in
// memory: small enough that the cache lines of a tile's columns stay in the first-level cache.
const tile = 8

// gather copies n elements of elem bytes, beginning with the k-th, from the tensor at src to dst.
func (l *Layout) gather(dst, src unsafe.Pointer, elem, k, n int) {
	inner := l.dims[len(l.dims)-1]
	outer := dim{n: 1}
	rest := l.dims[:len(l.dims)-1]
	if len(rest) > 0 {
		outer = rest[len(rest)-1]
		rest = rest[:len(rest)-1]
	}
	for done := 0; n > 0; {
		col, row := k%inner.n, k/inner.n%outer.n
		at := col*inner.stride + row*outer.stride + offset(rest, k/inner.n/outer.n)
		rows, cols := 1, min(inner.n-col, n)
		if col == 0 && n >= inner.n {
			rows = min(outer.n-row, n/inner.n)
		}
		b := block{
			dst: unsafe.Add(dst, done*elem), src: unsafe.Add(src, at*elem), elem: elem,
			rows: rows, cols: cols, rowStride: outer.stride, colStride: inner.stride,
		}
		b.copy()
		k += rows * cols
		n -= rows * cols
		done += rows * cols
	}
}

// offset returns where the k-th combination of the axes begins, in elements.
func offset(dims []dim, k int) (at int) {
	for i := len(dims) - 1; i >= 0; i-- {
		at += k % dims[i].n * dims[i].stride
		k /= dims[i].n
	}
	return at
}

// block is rows of equal length to be copied, one after the other, to dst.
type block struct {
	dst, src             unsafe.Pointer
	elem                 int
	rows, cols           int
	rowStride, colStride int // in elements of src
}

func (b *block) copy() {
	if b.colStride == 1 {
		b.copyRuns(b.cols)
		return
	}
	switch b.elem {
	case 1:
		copyTiles[uint8](b)
	case 2:
		copyTiles[uint16](b)
	case 4:
		copyTiles[uint32](b)
	case 8:
		copyTiles[uint64](b)
	case 16:
		copyTiles[[2]uint64](b)
	default:
		b.copyOdd()
	}
}

// copyRuns copies rows that lie in one piece.
func (b *block) copyRuns(cols int) {
	n := cols * b.elem
	for r := range b.rows {
		copy(unsafe.Slice((*byte)(unsafe.Add(b.dst, r*n)), n), unsafe.Slice((*byte)(unsafe.Add(b.src, r*b.rowStride*b.elem)), n))
	}
}

// copyTiles copies elements of a size that the processor moves at once.
func copyTiles[T any](b *block) {
	size := int(unsafe.Sizeof(*new(T)))
	rowStep, colStep := b.rowStride*size, b.colStride*size
	for c0 := 0; c0 < b.cols; c0 += tile {
		c1 := min(c0+tile, b.cols)
		for r := range b.rows {
			out := unsafe.Slice((*T)(unsafe.Add(b.dst, (r*b.cols+c0)*size)), c1-c0)
			in := unsafe.Add(b.src, r*rowStep+c0*colStep)
			for i := range out {
				out[i] = *(*T)(unsafe.Add(in, i*colStep))
			}
		}
	}
}

// copyOdd copies elements of any other size.
func (b *block) copyOdd() {
	for r := range b.rows {
		for c := range b.cols {
			d := unsafe.Slice((*byte)(unsafe.Add(b.dst, (r*b.cols+c)*b.elem)), b.elem)
			copy(d, unsafe.Slice((*byte)(unsafe.Add(b.src, (r*b.rowStride+c*b.colStride)*b.elem)), b.elem))
		}
	}
}
