package graph

// This file has the operations: what is known of a node's Op, everything hidden included.

import (
	"fmt"
	"strings"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Op is one of the operations below.
type Op interface{ op() }

type (
	// Input is a node that is given its value.
	Input struct{}

	// Const is a node whose value never changes.
	Const struct{ Value G.Value }

	// Binary works element by element. Either side may be a scalar. Comparisons give 1 and 0.
	Binary struct{ Kind BinaryKind }

	// Unary works element by element.
	Unary struct{ Kind UnaryKind }

	// MatMul is A x B of matrices; of stacks of matrices if Batched.
	MatMul struct{ TransA, TransB, Batched bool }

	// MatVec is A x b.
	MatVec struct{ Trans bool }

	// Dot is the inner product of two vectors.
	Dot struct{}

	// Outer is the matrix of all products of the elements of two vectors.
	Outer struct{}

	// Sum adds along axes, which disappear.
	Sum struct{ Along []int }

	// Max is the largest along axes, which disappear.
	Max struct{ Along []int }

	// Repeat repeats each slice along an axis; how often, the shapes say. Its second child is not used.
	Repeat struct{ Along int }

	// Size is the length of an axis, as a number of the node's dtype.
	Size struct{ Axis int }

	// Reshape has the elements of its child.
	Reshape struct{}

	// Transpose permutes axes: axis i of the result is axis Pattern[i] of the child.
	Transpose struct{ Pattern []int }

	// Softmax is along Axis, -1 for Gorgonia's choice: the last axis, the first of a column vector.
	Softmax struct {
		Axis int
		Log  bool
	}

	// SoftmaxDiff has the children x (not used), softmax(x), and the gradient of that.
	SoftmaxDiff struct {
		Axis int
		Log  bool
	}

	// Im2Col lays the patches of (N, C, H, W) out as (N, outH, outW, C*KernelH*KernelW).
	Im2Col struct{ Window }

	// Col2Im adds patches up to images of (N, C, H, W).
	Col2Im struct {
		Window
		N, C, H, W int
	}

	// MaxPool has the largest of each patch.
	MaxPool struct{ Pool }

	// MaxPoolDiff has the children x, its pooling (not used), and the gradient of that.
	MaxPoolDiff struct{ Pool }

	// Dropout zeroes elements with the probability P, and scales the others by 1/(1-P).
	Dropout struct{ P float64 }

	// DropoutDiff has the children x, its dropout, and the gradient of that.
	DropoutDiff struct{ P float64 }

	// BatchNorm normalises (N, C, ...) per channel. Scale and bias are nodes of their own.
	BatchNorm struct {
		Momentum, Epsilon float64
		Op                *G.BatchNormOp // the identity of the layer, and its running statistics
	}

	// BatchNormDiff has the children x and the gradient of its normalisation.
	BatchNormDiff struct {
		Epsilon float64
		Op      *G.BatchNormOp
	}

	// Slice is a range of one axis, all of it if End is -1. The axis disappears if a range has one element.
	Slice struct{ Along, Start, End, Step int }

	// SliceIncr is zero in the shape of its first child but for the slice, which is the second child.
	SliceIncr struct{ Along, Start, End, Step int }

	// Concat joins its children along an axis.
	Concat struct{ Axis int }

	// Identity is its child.
	Identity struct{}

	// ReadOp stores the value of its child in *Into.
	ReadOp struct{ Into *G.Value }

	// Assign does nothing: Gorgonia's Set, which tapeMachine ignores too.
	Assign struct{}

	// Other is an operation that is only known to be able to compute itself.
	Other struct{ Op G.Op }
)

// Window is where the patches of a convolution lie.
type Window struct {
	KernelH, KernelW, PadH, PadW, StrideH, StrideW, DilationH, DilationW int
}

// Pool is where the patches of a pooling lie.
type Pool struct {
	KernelH, KernelW, North, South, West, East, StrideH, StrideW int

	// Explicit: the four paddings were given one by one. Gorgonia then takes South and East for where the
	// patches begin.
	Explicit bool
}

func (Input) op()         {}
func (Const) op()         {}
func (Binary) op()        {}
func (Unary) op()         {}
func (MatMul) op()        {}
func (MatVec) op()        {}
func (Dot) op()           {}
func (Outer) op()         {}
func (Sum) op()           {}
func (Max) op()           {}
func (Repeat) op()        {}
func (Size) op()          {}
func (Reshape) op()       {}
func (Transpose) op()     {}
func (Softmax) op()       {}
func (SoftmaxDiff) op()   {}
func (Im2Col) op()        {}
func (Col2Im) op()        {}
func (MaxPool) op()       {}
func (MaxPoolDiff) op()   {}
func (Dropout) op()       {}
func (DropoutDiff) op()   {}
func (BatchNorm) op()     {}
func (BatchNormDiff) op() {}
func (Slice) op()         {}
func (SliceIncr) op()     {}
func (Concat) op()        {}
func (Identity) op()      {}
func (ReadOp) op()        {}
func (Assign) op()        {}
func (Other) op()         {}

// BinaryKind is an operation on two numbers, with Gorgonia's numbering.
type BinaryKind uint8

const (
	Add BinaryKind = iota
	Sub
	Mul
	Div
	Pow
	Lt
	Gt
	Lte
	Gte
	Eq
	Ne
	binaryKinds
)

// UnaryKind is a function of a number.
type UnaryKind uint8

const (
	Abs UnaryKind = iota
	Sign
	Ceil
	Floor
	Sin
	Cos
	Exp
	Ln
	Log2
	Neg
	Square
	Sqrt
	Inv
	InvSqrt
	Cube
	Tanh
	Sigmoid
	Log1p
	Expm1
	Softplus
	unaryKinds
)

// unaryNames are what Gorgonia prints for them.
var unaryNames = [unaryKinds]string{"abs", "sign", "ceil", "floor", "sin", "cos", "exp", "ln", "log2", "neg", "square",
	"sqrt", "inv", "invSqrt", "cube", "tanh", "sigmoid", "log1p", "expm1", "softplus"}

// String returns the operation's name.
func (k UnaryKind) String() string { return unaryNames[k] }

// isFloat reports whether dt is what operations of our own compute in.
func isFloat(dt tensor.Dtype) bool { return dt == tensor.Float32 || dt == tensor.Float64 }

// String names a node as Gorgonia's user knows it.
func (n *Node) String() string {
	return fmt.Sprintf("%s %v%v", Title(n.Src), n.Dtype, n.Shape)
}

// Title names a user's node by its number and its operation, or, if it is an input, its name. For an input
// without one Gorgonia's Node.Name makes something of the operation that it does not have.
func Title(n *G.Node) string {
	switch op := n.Op(); {
	case op != nil:
		return fmt.Sprintf("node %d %q", n.ID(), op.String())
	case strings.HasPrefix(n.Name(), "%!s(<nil>)"):
		return fmt.Sprintf("node %d (without a name)", n.ID())
	}
	return fmt.Sprintf("node %d %q", n.ID(), n.Name())
}
