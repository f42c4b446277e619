package kernels

// This file has the parameters that say where elements are. Kernels take them by value, as their last: [Words].

import "math/bits"

// Divisor divides numbers below 2^31 by By without dividing.
type Divisor struct{ By, Multiplier, Shift uint32 }

// NewDivisor returns a divisor by n, from 1 to 2^31.
//
// With 2^(l-1) < n <= 2^l the multiplier ceil(2^(31+l) / n) is too large by less than one part in 2^31, so that the product
// with a number below 2^31, shifted by 31+l, has the quotient's whole part (Granlund and Montgomery 1994).
func NewDivisor(n uint32) Divisor {
	l := uint32(bits.Len32(n - 1))
	if n <= 1 {
		return Divisor{By: n}
	}
	return Divisor{n, uint32((uint64(1)<<(31+l) + uint64(n) - 1) / uint64(n)), l - 1}
}

// View says where element i of a tensor of Shape, in row-major order, lies: its coordinates by Stride, in elements.
type View struct {
	Axes   uint32
	Stride [MaxAxes]uint32
	Shape  [MaxAxes]Divisor
	_      uint32 // kernels' parameters are of whole words
}

// Add adds an axis after the others. There may be MaxAxes.
func (v *View) Add(length, stride uint32) {
	v.Shape[v.Axes], v.Stride[v.Axes] = NewDivisor(length), stride
	v.Axes++
}

// Window is the geometry of a convolution or a pooling. Images are (Batch, Channels, Height, Width); the Pads are
// the rows and columns before the first.
type Window struct {
	Batch                         uint32
	PadHeight, PadWidth           int32
	DilationHeight, DilationWidth uint32
	Channels, Height, Width       Divisor
	OutHeight, OutWidth           Divisor
	KernelHeight, KernelWidth     Divisor
	StrideHeight, StrideWidth     Divisor
}

// PoolDiff is the geometry of a pooling, and what its gradient goes through, the expression's results.
type PoolDiff struct {
	Window Window
	Then   Expression
}
