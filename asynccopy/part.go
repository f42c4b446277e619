package asynccopy

// This file has parts of tensors.

import (
	"fmt"
	"math/bits"

	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// Part returns the memory of x from the offset on, in bytes, as a Tensor of the given dtype and shape; no shape
// means a scalar. The memory is shared, not copied: what is copied into x is in its parts, and the other way. So
// one copy can bring several tensors, packed one behind the other.
//
// A part is a Tensor like others, which may be released, or dropped, before x and after it: the memory goes back
// when x and all its parts are released. Readiness and uses are those of the memory as a whole: a part is Ready
// when the last copy into any part is complete, and a copy into one part follows what uses another.
//
// The offset must be a multiple of the dtype's size if that is a power of two, else of the alignment that the
// type has in Go; device code may want more. Memory of x begins at a multiple of 256 bytes, so parts at multiples
// of 256 are aligned as tensors of their own are.
func (x *Tensor) Part(offset int64, dt tensor.Dtype, shape ...int) (*Tensor, error) {
	if x == nil || x.buf == nil {
		return nil, fmt.Errorf("asynccopy: Part: the tensor is nil, or a zero Tensor")
	}
	n, err := x.checkPart(offset, dt, shape)
	if err != nil {
		return nil, named("Part", err)
	}
	b := x.buf
	part := newTensor(b, x.ptr+driver.DevicePtr(offset), n, dt, shape)
	part.whole = x.owner()
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.released {
		return nil, fmt.Errorf("asynccopy: Part: the tensor was %w", ErrReleased)
	}
	b.handles++
	return part, nil
}

// checkPart returns the size of a part that lies within x.
func (x *Tensor) checkPart(offset int64, dt tensor.Dtype, shape []int) (int64, error) {
	if err := checkDtype(dt); err != nil {
		return 0, err
	}
	n, err := byteSize(dt, shape)
	if err != nil {
		return 0, err
	}
	if offset < 0 || offset > x.size || n > x.size-offset {
		return 0, fmt.Errorf("offset is %d for %d bytes of %v%v: want them within the tensor's %d bytes",
			offset, n, dt, tensor.Shape(shape).Clone(), x.size)
	}
	if align := alignment(dt); offset%align != 0 {
		return 0, fmt.Errorf("offset is %d, want a multiple of %d for elements of %v", offset, align, dt)
	}
	return n, nil
}

// alignment returns what an element's address must be a multiple of.
func alignment(dt tensor.Dtype) int64 {
	if size := uint64(dt.Size()); bits.OnesCount64(size) == 1 && size <= 16 {
		return int64(size)
	}
	return int64(dt.Align())
}
