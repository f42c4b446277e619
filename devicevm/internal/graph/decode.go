package graph

// This file turns Gorgonia's operations into those of this package. They are told apart by the names of their
// types and by their fields: the names and hashes that Gorgonia prints leave too much out.

import (
	"fmt"
	"reflect"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// constant is what Gorgonia's constants have beside an Op's methods.
type constant interface{ Value() G.Value }

// decode returns the operation of a node.
func decode(n *G.Node) (Op, error) {
	op := n.Op()
	if op == nil {
		return Input{}, nil
	}
	f := fieldsOf(op)
	if f.v.Type().PkgPath() != gorgonia {
		return Other{op}, nil
	}
	decoded, err := decodeOwn(op, f)
	if err == nil {
		err = f.err
	}
	if err != nil {
		return nil, fmt.Errorf("operation %v: %w", op, err)
	}
	return decoded, nil
}

// decodeOwn returns an operation that Gorgonia itself defines.
func decodeOwn(op G.Op, f *fields) (Op, error) {
	switch f.v.Type().Name() {
	case "constantScalar", "constantTensor":
		c, ok := op.(constant)
		if !ok {
			return nil, fmt.Errorf("a constant without Value: %w", ErrIncompatible)
		}
		return Const{c.Value()}, nil
	case "Iop":
		return Identity{}, nil
	case "readOp":
		return ReadOp{f.valuePointer("into")}, f.err
	case "letOp":
		return Assign{}, nil
	case "elemBinOp":
		return decodeBinary(op, f)
	case "elemUnaryOp":
		kind := slices.Index(unaryNames[:], op.String())
		if kind < 0 {
			return Other{op}, nil
		}
		return Unary{UnaryKind(kind)}, nil
	case "linAlgBinOp":
		return decodeLinAlg(op, f)
	case "sumOp":
		return Sum{f.ints("along")}, nil
	case "maxOp":
		return Max{f.ints("along")}, nil
	case "repeatOp":
		return Repeat{f.int("along")}, nil
	case "sizeOp":
		return Size{f.int("axis")}, nil
	case "reshapeOp":
		return Reshape{}, nil
	case "transposeOp":
		return Transpose{f.ints("pattern")}, nil
	case "softmaxOp":
		return Softmax{f.int("axis"), f.bool("isLog")}, nil
	case "softmaxDiffOp":
		f := f.inner("softmaxOp")
		return SoftmaxDiff{f.int("axis"), f.bool("isLog")}, f.err
	case "im2colOp":
		return Im2Col{decodeWindow(f)}, nil
	case "col2imOp":
		return Col2Im{decodeWindow(f), f.int("unpaddedB"), f.int("unpaddedC"), f.int("unpaddedH"), f.int("unpaddedW")}, nil
	case "maxPoolOp":
		return MaxPool{decodePool(f)}, nil
	case "maxPoolDiffOp":
		return MaxPoolDiff{decodePool(f)}, nil
	case "dropoutOp":
		return Dropout{f.float("probability")}, nil
	case "dropoutDiffOp":
		f := f.inner("dropoutOp")
		return DropoutDiff{f.float("probability")}, f.err
	case "BatchNormOp":
		norm, ok := op.(*G.BatchNormOp)
		if !ok {
			return Other{op}, nil
		}
		return BatchNorm{f.float("momentum"), f.float("epsilon"), norm}, nil
	case "batchnormDiffOp":
		inner := f.inner("BatchNormOp")
		norm, err := embeddedNorm(f)
		if err == nil {
			err = inner.err
		}
		return BatchNormDiff{inner.float("epsilon"), norm}, err
	case "sliceOp", "sliceIncrOp":
		return decodeSlice(op, f)
	case "concatOp":
		return Concat{f.int("axis")}, nil
	}
	return Other{op}, nil
}

func decodeBinary(op G.Op, f *fields) (Op, error) {
	inner := f.inner("ʘBinaryOperator")
	kind := BinaryKind(inner.uint8("ʘBinaryOperatorType"))
	same := f.bool("retSame")
	if inner.err != nil {
		return nil, inner.err
	}
	if kind >= Lt && !same || kind >= binaryKinds {
		return Other{op}, nil // its result is of bool
	}
	return Binary{kind}, nil
}

func decodeLinAlg(op G.Op, f *fields) (Op, error) {
	transA, transB := f.bool("transA"), f.bool("transB")
	switch f.uint8("āBinaryOperator") {
	case 0:
		return MatMul{TransA: transA, TransB: transB}, nil
	case 1:
		return MatVec{transA}, nil
	case 2:
		return Dot{}, nil
	case 3:
		return Outer{}, nil
	case 4:
		return MatMul{TransA: transA, TransB: transB, Batched: true}, nil
	}
	return Other{op}, nil
}

func decodeWindow(f *fields) Window {
	return Window{f.int("h"), f.int("w"), f.int("padH"), f.int("padW"), f.int("strideH"), f.int("strideW"),
		f.int("dilationH"), f.int("dilationW")}
}

func decodePool(f *fields) Pool {
	return Pool{f.int("h"), f.int("w"), f.int("padNorth"), f.int("padSouth"), f.int("padWest"), f.int("padEast"),
		f.int("strideH"), f.int("strideW"), f.bool("explicitPadding")}
}

// decodeSlice reads a slice's range. None, or an empty one, means all, for which End is -1.
func decodeSlice(op G.Op, f *fields) (Op, error) {
	slicer, ok := op.(interface{ IsSlice() tensor.Slice })
	if !ok {
		return nil, fmt.Errorf("a slice without IsSlice: %w", ErrIncompatible)
	}
	s, along := slicer.IsSlice(), f.int("along")
	start, end, step := 0, -1, 1
	if s != nil && s.End() > s.Start() {
		start, end, step = s.Start(), s.End(), max(s.Step(), 1)
	}
	if f.v.Type().Name() == "sliceIncrOp" {
		return SliceIncr{along, start, end, step}, nil
	}
	return Slice{along, start, end, step}, nil
}

// embeddedNorm returns the layer that a gradient belongs to. The field is exported, since its type is.
func embeddedNorm(f *fields) (*G.BatchNormOp, error) {
	v := f.get("BatchNormOp", reflect.Pointer)
	if !v.IsValid() {
		return nil, f.err
	}
	norm, ok := v.Interface().(*G.BatchNormOp)
	if !ok || norm == nil {
		return nil, fmt.Errorf("field BatchNormOp is a %v: %w", v.Type(), ErrIncompatible)
	}
	return norm, nil
}
