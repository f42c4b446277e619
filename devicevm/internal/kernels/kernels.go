// Package kernels has the CUDA kernels of the device VM, and the types of their arguments.
//
// The kernels are CUDA C in src, compiled by a plain clang, without a CUDA toolkit, to the PTX that is
// committed beside it (make ptx) and that the driver compiles for the card when it loads the module. CI
// checks that the PTX is what the source gives. The tests compile the same source for the host and compare
// every kernel with plain Go.
//
// # Conventions
//
// Tensors are row-major and dense. A kernel's name ends in _f32 or _f64, its dtype. Kernels that work element
// by element take any grid; those that say so take one block of [Threads] a row, a part or a channel. No kernel
// adds atomically: the same input gives the same bits on every run. Indices are 32 bits: a tensor has fewer
// than 2^31 elements ([MaxElements]). What a kernel has to know before it can read ([Expression], [View], [Window],
// [Parameters]) is its last parameter, by value: a launch gives it as its words. What changes from run to run
// ([Settings], [Run]) is given by its device address.
//
// # Platforms
//
// The PTX runs on devices of compute capability 7.0 and newer, with drivers for CUDA 11.0 and newer.
package kernels

import (
	_ "embed"
	"fmt"
	"unsafe"
)

// PTX is the module's text, for PTX 7.0 and devices of compute capability 7.0 and newer.
//
//go:embed kernels.ptx
var PTX string

const (
	// Threads is the number of threads in a block of every kernel.
	Threads = 256

	// MaxElements bounds a tensor's size.
	MaxElements = 1<<31 - 1

	// MaxAxes bounds the number of axes of a [View].
	MaxAxes = 8
)

// Op is an elementwise operation.
type Op uint32

const (
	Add Op = iota // of two
	Sub
	Mul
	Div
	Pow
	Lt // 1 or 0
	Gt
	Lte
	Gte
	Eq
	Ne
	Abs // of one
	Sign
	Ceil
	Floor
	Sin
	Cos
	Exp
	Log
	Log2
	Neg
	Square
	Sqrt
	Inverse
	InverseSqrt
	Cube
	Tanh
	Sigmoid
	Log1p
	Expm1
	Softplus
	Copy
	Mask // of two: the first, times 1 or 0 for whether the second is at least 0

	Ops = int(iota)
)

// Operations over rows, of up to [MaxWidth] elements. Only the kernel rows has them. The differentials are of the gradient
// and the softmax.
const (
	RowSoftmax Op = Op(Ops) + iota
	RowLogSoftmax
	RowSoftmaxDiff
	RowLogSoftmaxDiff

	MaxWidth = 32
)

// Reach says which element of an [Operand] belongs to element i of the result.
type Reach uint32

const (
	One      Reach = iota // 0
	Same                  // i
	Steps                 // k = i / Step
	Rows                  // k % Inner
	Repeated              // (k / Inner / Repeat) * Inner + k % Inner
)

// wide is how many elements kernels have at once.
const wide = 4

// Operand is what an expression reads: elements of the tensor at device address Data. Those of [wide] neighbours of the result
// are neighbours if apart is 1, one if it is 0.
type Operand struct {
	Data                uint64
	Reach               Reach
	apart               uint32
	Step, Inner, Repeat Divisor
	_                   uint32
}

// wide reports whether the elements of wide neighbours can be read at once, and sets how.
func (o *Operand) wide() bool {
	switch {
	case o.Reach == One, o.Reach > Same && o.Step.By%wide == 0:
		return true
	case o.Reach == Same, o.Reach > Steps && o.Step.By == 1 && o.Inner.By%wide == 0:
		o.apart = 1
		return o.Data%16 == 0
	}
	return false
}

// NewOperand returns the operand of an expression with n elements that reads element (k / inner / repeat) * inner + k % inner
// for k = i / step.
func NewOperand(data uint64, n, step, repeat, inner int) Operand {
	o := Operand{Data: data, Reach: Repeated, Step: NewDivisor(uint32(step)), Inner: NewDivisor(uint32(inner)), Repeat: NewDivisor(uint32(repeat))}
	switch {
	case repeat == 1 && step == 1:
		o.Reach = Same
	case repeat == 1:
		o.Reach = Steps
	case n/step <= repeat*inner:
		o.Reach = Rows
	}
	return o
}

// Where an [Instruction] finds an operand: values below Previous are numbers of an [Operand].
const (
	Previous = 0x40 // the result of the instruction before
	Kept     = 0x80 // plus a slot: the result that an instruction has kept there
	Slots    = 15
)

// What an [Expression] has room for.
const (
	MaxOperands     = 12
	MaxResults      = 4
	MaxInstructions = 32
)

// Instruction applies Op to X and Y. Keep is 1 + the slot that the result is also kept in, or 0; Store is 1 + the number
// of the expression's result that it is, or 0.
type Instruction struct {
	Op                Op
	X, Y, Keep, Store uint32
}

func (i Instruction) pack() uint32 {
	return uint32(i.Op) | i.X<<8 | i.Y<<16 | i.Keep<<24 | i.Store<<28
}

// Expression is instructions over operands, for each element of results of the same size. Result has their device
// addresses. Kernels take it by value, as their last parameter: [Words] of it are the last arguments of a launch.
type Expression struct {
	Length, Operands, Wide, Brief uint32
	Operand                       [MaxOperands]Operand
	Result                        [MaxResults]uint64
	Code                          [MaxInstructions]uint32
}

// NewExpression returns the expression with the given parts, of which there may be as many as it has room for.
func NewExpression(operands []Operand, code []Instruction, results ...uint64) (Expression, error) {
	e := Expression{Length: uint32(len(code)), Operands: uint32(len(operands))}
	if len(operands) > MaxOperands || len(code) > MaxInstructions || len(results) > MaxResults {
		return e, fmt.Errorf("an expression of %d operands, %d instructions and %d results; there is room for %d, %d and %d",
			len(operands), len(code), len(results), MaxOperands, MaxInstructions, MaxResults)
	}
	copy(e.Operand[:], operands)
	copy(e.Result[:], results)
	e.Wide = 1
	for i := range operands {
		if !e.Operand[i].wide() {
			e.Wide = 0
		}
	}
	for _, r := range results {
		if r%16 != 0 {
			e.Wide = 0
		}
	}
	for i, in := range code {
		e.Code[i] = in.pack()
	}
	e.Brief = brief(code, len(operands))
	return e, nil
}

// What brief expressions do with x and y.
const (
	readX = 1 << iota // x is the first operand, else what the kernel has
	addY
	storeSum // as the second result
	rectify
	maskByY
)

// brief says what code does if kernels know all of it, else it is 0: a sum with an operand, a rectifier or a mask behind it or
// alone.
func brief(code []Instruction, operands int) uint32 {
	if len(code) == 0 || len(code) > 2 || code[len(code)-1].Store != 1 || operands > 2 {
		return 0
	}
	does, y := uint32(0), uint32(0)
	at := code[0].X
	switch {
	case at == 0 && (operands == 2 || code[0].Y == 0 || code[0].Op == Copy):
		does, y = readX, 1
	case at != Previous:
		return 0
	}
	last := code[len(code)-1]
	if len(code) == 2 {
		first := code[0]
		switch {
		case first.Keep > 0 || first.Store != 0 && first.Store != 2 || last.Op != Mask || last.X != Previous:
			return 0
		case first.Op == Add && first.Y == y && operands == int(y)+1:
			does |= addY
		case first.Op != Copy:
			return 0
		}
		if first.Store == 2 {
			does |= storeSum
		}
		at = Previous
	}
	switch {
	case last.Keep > 0 || last.X != at:
		return 0
	case last.Op == Add && len(code) == 1 && last.Y == y && operands == int(y)+1:
		return does | addY
	case last.Op == Mask && last.Y == at && (len(code) == 2 || operands == int(y)):
		return does | rectify
	case last.Op == Mask && last.Y == y && operands == int(y)+1:
		return does | maskByY
	}
	return 0
}

// Words returns the words of a struct that is a kernel's last parameter. Its size must be a multiple of a word's.
func Words[T any](x *T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(x)), unsafe.Sizeof(*x)/8)
}

// Settings of a solver, on the device. The gradient gets L1 and L2 regularisation added, is scaled, then clipped to
// [-Clip, Clip] if Clip > 0. Decay is AdamW's. Beta1 is also momentum's factor, Beta2 RMSProp's decay. Upstream, if not
// 0, has momentum regularised by itself in place of the weights. Power1 and Power2 are the betas to the power of Steps;
// they start at 1.
type Settings struct {
	Rate, L1, L2   float64
	Scale, Clip    float64
	Decay          float64
	Beta1, Beta2   float64
	Epsilon        float64
	Upstream       float64
	Power1, Power2 float64
	Steps          float64
}

// Run is what numbers depend on that differ from run to run.
type Run struct{ Count, Seed uint64 }

// MaxParameters bounds what one launch of a solver updates.
const MaxParameters = 16

// Parameter is a tensor that a solver updates: device addresses, 0 for moments that it does not keep. The blocks from the
// parameter's before to End are its own.
type Parameter struct {
	Weights, Gradient, First, Second uint64
	N, End                           uint32
}

// Parameters are what a launch of a solver updates, which takes it by value, as its last parameter.
type Parameters [MaxParameters]Parameter

// Updates is how many elements a block of a solver's updates.
const Updates = 4 * Threads

// NewParameters numbers the blocks of parameters, of which there may be MaxParameters, and returns how many they are.
func NewParameters(list ...Parameter) (p *Parameters, blocks uint32) {
	p = new(Parameters)
	for i, of := range list {
		blocks += (of.N + Updates - 1) / Updates
		of.End = blocks
		p[i] = of
	}
	return p, blocks
}
