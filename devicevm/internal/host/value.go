// Package host turns Gorgonia's host values, tensors and scalars of any layout, into plain bytes and back.
package host

import (
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/strided"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Copy copies the elements of a value, row-major, into dst, which they fill. The value is not written to.
func Copy(dst []byte, v G.Value, dt tensor.Dtype) error {
	if v == nil {
		return fmt.Errorf("no value")
	}
	if v.Dtype() != dt {
		return fmt.Errorf("a value of %v, want %v", v.Dtype(), dt)
	}
	if d, ok := v.(*tensor.Dense); ok {
		layout, err := strided.Of(d)
		if err != nil {
			return err
		}
		if layout.Size() != len(dst) {
			return fmt.Errorf("a value of shape %v, %d bytes, want %d", d.Shape(), layout.Size(), len(dst))
		}
		layout.Gather(dst, 0)
		return nil
	}
	src := scalar(v)
	if src == nil {
		return fmt.Errorf("a value of type %T, want a *tensor.Dense or a scalar of Gorgonia", v)
	}
	if len(src) != len(dst) {
		return fmt.Errorf("a scalar of %d bytes, want %d", len(src), len(dst))
	}
	copy(dst, src)
	return nil
}

// scalar returns the memory of one of Gorgonia's scalars, or nil.
func scalar(v G.Value) []byte {
	switch v := v.(type) {
	case *G.F64:
		return bytesOf(v)
	case *G.F32:
		return bytesOf(v)
	case *G.I:
		return bytesOf(v)
	case *G.I64:
		return bytesOf(v)
	case *G.I32:
		return bytesOf(v)
	case *G.U8:
		return bytesOf(v)
	case *G.B:
		return bytesOf(v)
	}
	return nil
}

func bytesOf[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

// New returns a zero value of the given dtype and shape: one of Gorgonia's scalars for an empty
// shape, else a *tensor.Dense.
func New(dt tensor.Dtype, shape tensor.Shape) G.Value {
	if len(shape) == 0 {
		switch dt {
		case tensor.Float64:
			return G.NewF64(0)
		case tensor.Float32:
			return G.NewF32(0)
		case tensor.Int:
			return G.NewI(0)
		case tensor.Int64:
			return G.NewI64(0)
		case tensor.Int32:
			return G.NewI32(0)
		case tensor.Byte:
			return G.NewU8(0)
		case tensor.Bool:
			return G.NewB(false)
		}
	}
	return tensor.New(tensor.Of(dt), tensor.WithShape(shape...))
}

// Bytes returns the memory of a value that New made, or nil.
func Bytes(v G.Value) []byte {
	if d, ok := v.(*tensor.Dense); ok {
		return d.Raw
	}
	return scalar(v)
}
