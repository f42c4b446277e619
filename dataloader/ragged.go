package dataloader

// Fields whose shape differs between samples: texts of so many tokens, images of several sizes.
//
// How large a batch gets shows only when its samples are read. So each row of such a field has memory of its own, on
// the Go heap, and the batch's is taken when all are there: see ragged_batch.go. In the batch's common block such a field
// has each sample's shape.

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"
)

// Padding says how samples of different shapes are put into one tensor: their dimensions of -1 become as large as the
// largest of the batch, and what a sample lacks is filled, at its ends.
type Padding struct {
	// Multiple is what the largest is rounded up to a multiple of, so that batches have few shapes. 0: 1.
	Multiple int

	// Value is what is filled in, of the field's type. Nil: zero.
	Value any
}

// wide is what a layout knows of a ragged field.
type wide struct {
	element  int
	pads     bool
	multiple int
	fill     []byte // an element; nil: zero
}

// ragged reports whether a dimension of the field differs between samples.
func (f Field) ragged() bool { return slices.Contains(f.Shape, -1) }

// wide checks what Pad says.
func (f Field) wide() (*wide, error) {
	if !f.ragged() {
		if f.Pad != nil {
			return nil, fmt.Errorf("its Pad is set: want nil, as its Shape %v has no dimension of -1", f.Shape)
		}
		return nil, nil
	}
	w := &wide{element: int(f.Dtype.Size()), pads: f.Pad != nil, multiple: 1}
	if !w.pads {
		return w, nil
	}
	if f.Pad.Multiple < 0 || f.Pad.Multiple > maxSample {
		return nil, fmt.Errorf("its Pad.Multiple = %d: want 0 to %d", f.Pad.Multiple, int64(maxSample))
	}
	w.multiple = max(f.Pad.Multiple, 1)
	if f.Pad.Value == nil {
		return w, nil
	}
	v := reflect.ValueOf(f.Pad.Value)
	if v.Type() != f.Dtype.Type {
		return nil, fmt.Errorf("its Pad.Value is a %v: want the field's type, %v", v.Type(), f.Dtype.Type)
	}
	own := reflect.New(v.Type())
	own.Elem().Set(v)
	w.fill = slices.Clone(unsafe.Slice((*byte)(own.UnsafePointer()), w.element))
	return w, nil
}

// Ragged makes the row's sample of a field that has dimensions of -1 one of the given shape, and returns its memory,
// zeroed, as elements in row-major order. A dimension of -1 may be anything from 0 up; the others are the field's,
// else it is an error that names both. Calling it again begins anew. T must be exactly the field's type, as for
// [Values], which returns the same memory afterwards. A row for which it is not called has a sample of no elements.
func Ragged[T any](r Row, field int, shape ...int) ([]T, error) {
	r.b.sizeOf("Ragged", field)
	values[T](r.b, "Ragged", field, nil) // or it panics
	raw, err := r.reshape(field, shape)
	if err != nil {
		return nil, err
	}
	return values[T](r.b, "Ragged", field, raw), nil
}

// reshape makes the sample of a ragged field one of the given shape.
func (r Row) reshape(field int, shape []int) ([]byte, error) {
	f := &r.b.layout.fields[field]
	bad := func(want string) ([]byte, error) {
		return nil, fmt.Errorf("field %d, %s: shape %v: want %s", field, f.describe(), tensor.Shape(slices.Clone(shape)), want)
	}
	if r.b.layout.wide[field] == nil {
		return bad("no call of Ragged: samples do not differ in shape")
	}
	if len(shape) != len(f.Shape) {
		return bad(fmt.Sprintf("%d dimensions", len(f.Shape)))
	}
	size := uint64(f.Dtype.Size())
	for i, d := range shape {
		if d < 0 || f.Shape[i] >= 0 && d != f.Shape[i] {
			return bad("the field's, and numbers >= 0 where that is -1")
		}
		hi, lo := bits.Mul64(size, uint64(d))
		if size = lo; hi > 0 || size > maxSample {
			return bad(fmt.Sprintf("at most %d bytes", int64(maxSample)))
		}
	}
	copy(r.shape(field), shape)
	return r.b.grow(field, r.k, int(size)), nil
}

// maxSample is more than a sample can have; make panics if it is asked for too much.
const maxSample = min(1<<40, maxInt/4)

// Shape returns the shape of the sample in the row: that of the last call of [Ragged] where the field's differs.
func (r Row) Shape(field int) tensor.Shape {
	r.b.sizeOf("Row.Shape", field)
	if r.b.layout.wide[field] == nil {
		return r.b.layout.fields[field].Shape.Clone()
	}
	return tensor.Shape(slices.Clone(r.shape(field)))
}

// shape is where the shape of the sample in the row is.
func (r Row) shape(field int) []int {
	raw := r.fixed(field)
	return unsafe.Slice((*int)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/sizeOfInt)
}

const sizeOfInt = bits.UintSize / 8

// grow makes row k of a ragged field n zeroed bytes, in the memory that it had before where that is enough.
func (b *buffer) grow(field, k, n int) []byte {
	row := &b.ragged[field][k]
	if cap(*row) < n {
		*row = alignedBytes(n)
		return *row
	}
	*row = (*row)[:n]
	clear(*row)
	return *row
}

// fitRagged has memory for n rows of each ragged field, which grows as they are read.
func (b *buffer) fitRagged(n int) {
	for i, w := range b.layout.wide {
		if w == nil {
			continue
		}
		if b.ragged == nil {
			b.ragged = make([][][]byte, len(b.layout.fields))
		}
		if have := len(b.ragged[i]); have < n {
			b.ragged[i] = append(b.ragged[i], make([][]byte, n-have)...)
		}
	}
}

// emptyRagged makes the samples of a row have no elements.
func (b *buffer) emptyRagged(k int) {
	for _, rows := range b.ragged {
		if rows != nil {
			rows[k] = rows[k][:0]
		}
	}
}

// moveRagged copies row from over row to. Their shapes are copied elsewhere.
func (b *buffer) moveRagged(to, from int) {
	for i, rows := range b.ragged {
		if rows != nil {
			copy(b.grow(i, to, len(rows[from])), rows[from])
		}
	}
}
