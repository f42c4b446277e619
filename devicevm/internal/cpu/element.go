package cpu

// This file has the operations on elements. Functions are computed in float64 for float32 too, which costs
// little and is exact to the last bit.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/graph"
)

// binary computes dst = a op b. A scalar operand is one element.
func binary[T float](kind graph.BinaryKind, dst []T, a, b operand[T]) {
	switch {
	case a.scalar && b.scalar:
		x := apply(kind, a.v[0], b.v[0])
		for i := range dst {
			dst[i] = x
		}
	case a.scalar:
		scalarLeft(kind, dst, a.v[0], b.v)
	case b.scalar:
		scalarRight(kind, dst, a.v, b.v[0])
	default:
		both(kind, dst, a.v, b.v)
	}
}

func both[T float](kind graph.BinaryKind, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch kind {
	case graph.Add:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case graph.Sub:
		for i := range dst {
			dst[i] = a[i] - b[i]
		}
	case graph.Mul:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case graph.Div:
		for i := range dst {
			dst[i] = a[i] / b[i]
		}
	default:
		for i := range dst {
			dst[i] = apply(kind, a[i], b[i])
		}
	}
}

func scalarLeft[T float](kind graph.BinaryKind, dst []T, a T, b []T) {
	b = b[:len(dst)]
	switch kind {
	case graph.Add, graph.Mul:
		scalarRight(kind, dst, b, a)
	case graph.Sub:
		for i := range dst {
			dst[i] = a - b[i]
		}
	case graph.Div:
		for i := range dst {
			dst[i] = a / b[i]
		}
	default:
		for i := range dst {
			dst[i] = apply(kind, a, b[i])
		}
	}
}

func scalarRight[T float](kind graph.BinaryKind, dst, a []T, b T) {
	a = a[:len(dst)]
	switch kind {
	case graph.Add:
		for i := range dst {
			dst[i] = a[i] + b
		}
	case graph.Sub:
		for i := range dst {
			dst[i] = a[i] - b
		}
	case graph.Mul:
		for i := range dst {
			dst[i] = a[i] * b
		}
	case graph.Div:
		for i := range dst {
			dst[i] = a[i] / b
		}
	case graph.Gte:
		for i := range dst {
			dst[i] = truth[T](a[i] >= b)
		}
	default:
		for i := range dst {
			dst[i] = apply(kind, a[i], b)
		}
	}
}

// truth is 1 or 0. The compiler makes it without a branch, which matters: signs of activations are random.
func truth[T float](b bool) T {
	var x uint8
	if b {
		x = 1
	}
	return T(x)
}

func apply[T float](kind graph.BinaryKind, a, b T) T {
	switch kind {
	case graph.Add:
		return a + b
	case graph.Sub:
		return a - b
	case graph.Mul:
		return a * b
	case graph.Div:
		return a / b
	case graph.Pow:
		return T(math.Pow(float64(a), float64(b)))
	case graph.Lt:
		return truth[T](a < b)
	case graph.Gt:
		return truth[T](a > b)
	case graph.Lte:
		return truth[T](a <= b)
	case graph.Gte:
		return truth[T](a >= b)
	case graph.Eq:
		return truth[T](a == b)
	case graph.Ne:
		return truth[T](a != b)
	}
	panic("cpu: no such operation")
}

// unary computes dst = f(a).
func unary[T float](kind graph.UnaryKind, dst []T, a operand[T]) {
	if a.scalar {
		one := [1]T{}
		unary(kind, one[:], operand[T]{v: a.v[:1]})
		for i := range dst {
			dst[i] = one[0]
		}
		return
	}
	v := a.v[:len(dst)]
	switch kind {
	case graph.Neg:
		for i, x := range v {
			dst[i] = -x
		}
	case graph.Square:
		for i, x := range v {
			dst[i] = x * x
		}
	case graph.Cube:
		for i, x := range v {
			dst[i] = x * x * x
		}
	case graph.Inv:
		for i, x := range v {
			dst[i] = 1 / x
		}
	case graph.Sign:
		for i, x := range v {
			dst[i] = truth[T](x > 0) - truth[T](x < 0)
			if x != x {
				dst[i] = x
			}
		}
	default:
		f := functions[kind]
		for i, x := range v {
			dst[i] = T(f(float64(x)))
		}
	}
}

var functions = map[graph.UnaryKind]func(float64) float64{
	graph.Abs:      math.Abs,
	graph.Ceil:     math.Ceil,
	graph.Floor:    math.Floor,
	graph.Sin:      math.Sin,
	graph.Cos:      math.Cos,
	graph.Exp:      math.Exp,
	graph.Ln:       math.Log,
	graph.Log2:     math.Log2,
	graph.Sqrt:     math.Sqrt,
	graph.InvSqrt:  func(x float64) float64 { return 1 / math.Sqrt(x) },
	graph.Tanh:     math.Tanh,
	graph.Sigmoid:  sigmoid,
	graph.Log1p:    math.Log1p,
	graph.Expm1:    math.Expm1,
	graph.Softplus: softplus,
}

func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
