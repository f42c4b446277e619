// Package strided copies tensors of any layout into contiguous memory, whole or in pieces.
package strided

import (
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/nontemporal"
	"gorgonia.org/tensor"
)

// Layout says where the elements of a tensor lie, in row-major order. It refers to the tensor's memory,
// and neither it nor its methods change the tensor: any number of goroutines may read one at once.
// (Package tensor's own way, a transpose in place, would change the shape under other readers.)
type Layout struct {
	raw  []byte
	elem int // bytes an element
	len  int // elements
	dims []dim
}

// dim is an axis, outermost first. Axes of length 1 are left out, and neighbours that make one run of
// equal steps are merged, so a contiguous tensor has none, and most others have two or three.
type dim struct{ n, stride int } // in elements

// Of returns the layout of t. It fails if t's shape and strides reach outside of its memory.
func Of(t *tensor.Dense) (Layout, error) {
	if t == nil || t.Dtype().Type == nil {
		return Layout{}, fmt.Errorf("t has no dtype")
	}
	shape, strides := t.Shape(), t.Strides()
	l := Layout{raw: t.Raw, elem: int(t.Dtype().Size()), len: 1}
	contiguous := true
	first, last := 0, 0 // the elements furthest apart
	for i := len(shape) - 1; i >= 0; i-- {
		n := shape[i]
		if n == 0 {
			return Layout{raw: t.Raw[:0], elem: l.elem}, nil
		}
		stride := strideOf(shape, strides, i)
		if n != 1 && stride != l.len {
			contiguous = false
		}
		l.len *= n
		if stride < 0 {
			first += (n - 1) * stride
		} else {
			last += (n - 1) * stride
		}
	}
	if first < 0 || (last+1)*l.elem > len(l.raw) {
		return Layout{}, fmt.Errorf("shape %v with strides %v does not fit into the tensor's %d bytes", shape, strides, len(l.raw))
	}
	if !contiguous {
		l.dims = merge(shape, strides)
	}
	return l, nil
}

// strideOf returns the stride of an axis. tensor stores a single one for column-major vectors of two
// axes, and none for tensors of one element.
func strideOf(shape, strides []int, axis int) int {
	switch {
	case len(strides) == len(shape):
		return strides[axis]
	case shape[axis] == 1 || len(strides) == 0:
		return 0
	}
	return strides[0]
}

func merge(shape, strides []int) []dim {
	dims := make([]dim, 0, len(shape))
	for i, n := range shape {
		if n == 1 {
			continue
		}
		d := dim{n, strideOf(shape, strides, i)}
		if k := len(dims) - 1; k >= 0 && dims[k].stride == d.n*d.stride {
			dims[k] = dim{dims[k].n * d.n, d.stride}
			continue
		}
		dims = append(dims, d)
	}
	return dims
}

// Len is the number of elements.
func (l *Layout) Len() int { return l.len }

// Size is the size of the elements in bytes.
func (l *Layout) Size() int { return l.len * l.elem }

// Contiguous reports whether the elements are one piece of memory, in row-major order.
func (l *Layout) Contiguous() bool { return len(l.dims) == 0 }

// Run is how many bytes, in row-major order, lie in one piece before the next that don't: an element, or more.
func (l *Layout) Run() int {
	if len(l.dims) == 0 {
		return l.Size()
	}
	if inner := l.dims[len(l.dims)-1]; inner.stride == 1 {
		return inner.n * l.elem
	}
	return l.elem
}

// Gather copies the bytes [off, off+len(dst)) of the row-major contents into dst. Both are multiples of
// the element size, and the range lies within Size. Pieces may be gathered by several goroutines at once.
func (l *Layout) Gather(dst []byte, off int) {
	if len(dst) == 0 {
		return
	}
	if len(l.dims) == 0 {
		copy(dst, l.raw[off:off+len(dst)])
		return
	}
	l.gather(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(l.raw)), l.elem, off/l.elem, len(dst)/l.elem)
}

// GatherNonTemporal is Gather for what a device reads next: past the caches where the contents are one piece.
func (l *Layout) GatherNonTemporal(dst []byte, off int) {
	if len(l.dims) > 0 {
		l.Gather(dst, off)
		return
	}
	nontemporal.Copy(dst, l.raw[off:off+len(dst)])
}

// Mask returns a contiguous copy of a mask of the same layout: one that has a value for each element of
// the tensor's memory. A shorter one is an error.
func (l *Layout) Mask(mask []bool) ([]bool, error) {
	if want := len(l.raw) / l.elem; len(mask) < want {
		return nil, fmt.Errorf("the mask has %d values, want %d", len(mask), want)
	}
	own := make([]bool, l.len)
	switch {
	case len(l.dims) == 0:
		copy(own, mask)
	case l.len > 0:
		l.gather(unsafe.Pointer(unsafe.SliceData(own)), unsafe.Pointer(unsafe.SliceData(mask)), 1, 0, l.len)
	}
	return own, nil
}
