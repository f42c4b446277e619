// Package strided copies tensors of any layout into contiguous memory.
package strided

import (
	"errors"
	"fmt"

	"gorgonia.org/tensor"
)

// Layout is where the elements of a tensor lie, in row-major order. It only reads the tensor.
type Layout struct {
	raw     []byte
	elem    int
	size    int
	shape   []int
	strides []int // in elements
	contig  bool
}

// Of returns the layout of t.
func Of(t *tensor.Dense) (Layout, error) {
	if t == nil || t.Dtype().Type == nil {
		return Layout{}, errors.New("t has no dtype")
	}
	l := Layout{raw: t.Raw, elem: int(t.Dtype().Size()), shape: t.Shape(), strides: t.Strides()}
	n, last := 1, 0
	if len(l.strides) < len(l.shape) {
		return Layout{}, fmt.Errorf("shape %v has strides %v", l.shape, l.strides)
	}
	l.contig = true
	for i := len(l.shape) - 1; i >= 0; i-- {
		if l.shape[i] != 1 && l.strides[i] != n {
			l.contig = false
		}
		n *= l.shape[i]
		last += (l.shape[i] - 1) * l.strides[i]
	}
	l.size = n * l.elem
	if n > 0 && (last+1)*l.elem > len(l.raw) {
		return Layout{}, fmt.Errorf("shape %v with strides %v needs %d bytes, t has %d", l.shape, l.strides, (last+1)*l.elem, len(l.raw))
	}
	return l, nil
}

// Size is the size of the contents in bytes.
func (l *Layout) Size() int { return l.size }

// Contiguous reports whether the contents are one piece of memory in row-major order.
func (l *Layout) Contiguous() bool { return l.contig }

// Gather copies the bytes [off, off+len(dst)) of the contents into dst. Both are multiples of the
// element size and lie within Size.
func (l *Layout) Gather(dst []byte, off int) {
	if l.contig {
		copy(dst, l.raw[off:off+len(dst)])
		return
	}
	for i := 0; i < len(dst); i += l.elem {
		k, at := (off+i)/l.elem, 0
		for d := len(l.shape) - 1; d >= 0; d-- {
			at += k % l.shape[d] * l.strides[d]
			k /= l.shape[d]
		}
		copy(dst[i:i+l.elem], l.raw[at*l.elem:])
	}
}
