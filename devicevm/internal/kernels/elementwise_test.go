package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/leak"
)

// reference is each operation by Go's math.
var reference = [Ops]func(x, y float64) float64{
	Add:         func(x, y float64) float64 { return x + y },
	Sub:         func(x, y float64) float64 { return x - y },
	Mul:         func(x, y float64) float64 { return x * y },
	Div:         func(x, y float64) float64 { return x / y },
	Pow:         pow,
	Gt:          func(x, y float64) float64 { return truth(x > y) },
	Gte:         func(x, y float64) float64 { return truth(x >= y) },
	Lt:          func(x, y float64) float64 { return truth(x < y) },
	Lte:         func(x, y float64) float64 { return truth(x <= y) },
	Eq:          func(x, y float64) float64 { return truth(x == y) },
	Ne:          func(x, y float64) float64 { return truth(x != y) },
	Sin:         func(x, _ float64) float64 { return math.Sin(x) },
	Cos:         func(x, _ float64) float64 { return math.Cos(x) },
	Copy:        func(x, _ float64) float64 { return x },
	Mask:        func(x, y float64) float64 { return x * truth(y >= 0) },
	Neg:         func(x, _ float64) float64 { return -x },
	Abs:         func(x, _ float64) float64 { return math.Abs(x) },
	Sign:        func(x, _ float64) float64 { return sign(x) },
	Ceil:        func(x, _ float64) float64 { return math.Ceil(x) },
	Floor:       func(x, _ float64) float64 { return math.Floor(x) },
	Square:      func(x, _ float64) float64 { return x * x },
	Cube:        func(x, _ float64) float64 { return x * x * x },
	Sqrt:        func(x, _ float64) float64 { return math.Sqrt(x) },
	Inverse:     func(x, _ float64) float64 { return 1 / x },
	InverseSqrt: func(x, _ float64) float64 { return 1 / math.Sqrt(x) },
	Exp:         func(x, _ float64) float64 { return math.Exp(x) },
	Log:         func(x, _ float64) float64 { return ln(x) },
	Log2:        func(x, _ float64) float64 { return ln(x) / math.Ln2 },
	Log1p:       func(x, _ float64) float64 { return math.Log1p(x) },
	Expm1:       func(x, _ float64) float64 { return math.Expm1(x) },
	Tanh:        func(x, _ float64) float64 { return math.Tanh(x) },
	Sigmoid:     func(x, _ float64) float64 { return math.Exp(min(x, 0)) / (1 + math.Exp(-math.Abs(x))) },
	Softplus:    func(x, _ float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) },
}

// ln is math.Log, exact near 1 and, unlike it on amd64, for subnormals.
func ln(x float64) float64 {
	switch {
	case x > 0.5 && x < 2:
		return math.Log1p(x - 1)
	case x > 0 && x < 0x1p-1022:
		return math.Log(x*0x1p100) - 100*math.Ln2
	}
	return math.Log(x)
}

// pow is math.Pow, but for the bases that its logarithm is wrong for.
func pow(x, y float64) float64 {
	a := math.Abs(x)
	if a == 1 || y == 0 || !(a > 0.5 && a < 2 || a > 0 && a < 0x1p-1022) {
		return math.Pow(x, y)
	}
	return math.Exp(y*ln(a)) * math.Pow(math.Copysign(1, x), y)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

// awkward are the values at which such functions go wrong.
func awkward[T float]() []T {
	smallest, largest := math.SmallestNonzeroFloat64, math.MaxFloat64
	if unsafe.Sizeof(T(0)) == 4 {
		smallest, largest = math.SmallestNonzeroFloat32, math.MaxFloat32
	}
	inf, tiny, huge := T(math.Inf(1)), T(smallest), T(largest)
	x := []T{0, 1, 2, 3, 0.5, 1.5, 1e-3, 1e-5, 1e-9, 1e-30, 10, 20, 44, 87, 88.5, 89, 103, 105, 700, 709.5, 710, 745, 746, 1e4, 1e10, 1e30,
		0.70710678, 1.41421356, 0.99999994, 1.0000001, 0.4999, 0.5001, 0.3466, 16777217, 9e15, tiny, 3 * tiny, huge, inf}
	for _, v := range x[:len(x):len(x)] {
		x = append(x, -v)
	}
	return append(x, T(math.NaN()))
}

// Every operation on every pair of awkward values and on random ones is as good as Go's to a few units in the last
// place.
func TestElementwise(t *testing.T) {
	each(t, testElementwise[float32], testElementwise[float64])
}

func testElementwise[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := awkward[T]()
	var xs, ys []T
	for _, x := range values {
		for _, y := range values {
			xs, ys = append(xs, x), append(ys, y)
		}
	}
	for range 5000 {
		xs, ys = append(xs, T(rng.NormFloat64()*math.Exp(rng.NormFloat64()*4))), append(ys, T(rng.NormFloat64()*math.Exp(rng.NormFloat64()*2)))
	}
	out := make([]T, len(xs))
	for op := range Op(Ops) {
		operands := []Operand{{Data: address(t, xs), Reach: Same}, {Data: address(t, ys), Reach: Same}}
		e := expression(t, operands, []Instruction{{Op: op, X: 0, Y: 1, Store: 1}}, address(t, out))
		run(t, "elementwise"+suffix[T](), [3]uint32{2, 1, 1}, uint32(len(xs)), e)
		for i, got := range out {
			x, y := float64(xs[i]), float64(ys[i])
			if (op == Sin || op == Cos) && math.Abs(x) > 1e9 && !math.IsInf(x, 0) {
				continue // documented to be inexact
			}
			want := reference[op](x, y)
			if !near(got, want, op) {
				t.Errorf("operation %d of (%g, %g): %g, want %g", op, x, y, got, T(want))
				break
			}
		}
	}
}

// near says whether got is want to what an operation can give: 4 units in the last place, for powers what the logarithm's
// rounding costs times its size.
func near[T float](got T, want float64, op Op) bool {
	g, w := float64(got), float64(T(want))
	if math.IsNaN(w) || math.IsNaN(g) {
		return math.IsNaN(w) == math.IsNaN(g)
	}
	if g == w {
		return true
	}
	ulp, smallest, largest := 0x1p-52, 0x1p-1074, math.MaxFloat64
	if unsafe.Sizeof(T(0)) == 4 {
		ulp, smallest, largest = 0x1p-23, 0x1p-149, math.MaxFloat32
	}
	limit := 4.0
	if op == Pow {
		limit += 4 * math.Abs(math.Log(math.Abs(w)))
		if math.IsInf(w, 0) {
			return math.Abs(g) > largest/16
		}
		if math.IsInf(g, 0) {
			return math.Abs(w) > largest/16
		}
		limit = max(limit, 8)
	}
	if (op == Sin || op == Cos) && unsafe.Sizeof(T(0)) == 8 {
		return math.Abs(g-w) <= 1e-13 // near the zeros Go's own are not better
	}
	return math.Abs(g-w) <= max(limit*ulp*math.Abs(w), 2*smallest*limit/4)
}

// An expression reads operands by broadcasting, and results of earlier instructions, and has several results. Shapes are
// such that rows are and are not read several elements at once; results begin at addresses that can't be written so.
func TestExpression(t *testing.T) {
	each(t, testExpression[float32], testExpression[float64])
}

func testExpression[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shape := range [][3]int{{1, 1, 1}, {2, 3, 5}, {4, 1, 7}, {3, 300, 1}, {33, 17, 9}, {5, 4, 12}, {2, 8, 1}, {3, 7, 400}} {
		a, b, c := shape[0], shape[1], shape[2]
		n := a * b * c
		x, scalar, row, middle, column := random[T](rng, n), random[T](rng, 1), random[T](rng, c), random[T](rng, a*c), random[T](rng, a)
		first, fourth, out := make([]T, n), make([]T, n+1)[1:], make([]T, n)
		operands := []Operand{
			{Data: address(t, x), Reach: Same},
			{Data: address(t, scalar)},
			NewOperand(address(t, row), n, 1, a*b, c),
			NewOperand(address(t, middle), n, 1, b, c), // (a, 1, c) along the middle axis
			NewOperand(address(t, column), n, b*c, 1, 1),
		}
		code := []Instruction{
			{Op: Add, X: 0, Y: 2, Keep: 1 + 3, Store: 1 + 2}, // x + row, kept
			{Op: Mul, X: Previous, Y: 3, Keep: 1 + 14},       // times middle, kept
			{Op: Sub, X: 4, Y: Previous},                     // column - that
			{Op: Square, X: Previous, Y: Previous, Store: 1}, // squared
			{Op: Mul, X: Previous, Y: Kept + 3},              // times the first
			{Op: Add, X: Kept + 14, Y: Previous, Keep: 4},    // plus the second, in the first's slot
			{Op: Sub, X: 1, Y: Kept + 3},                     // scalar - that
			{Op: Mul, X: Kept + 14, Y: Previous, Store: 2},
		}
		run(t, "elementwise"+suffix[T](), [3]uint32{2, 1, 1}, uint32(n), expression(t, operands, code, address(t, fourth), address(t, out), address(t, first)))
		want, wantFirst, wantFourth := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			first := float64(x[i]) + float64(row[i%c])
			second := first * float64(middle[i/(b*c)*c+i%c])
			d := float64(column[i/(b*c)]) - second
			wantFirst[i], wantFourth[i] = first, d*d
			want[i] = second * (float64(scalar[0]) - (second + d*d*first))
		}
		compare(t, fmt.Sprint(shape), out, want)
		compare(t, fmt.Sprint(shape, " first"), first, wantFirst)
		compare(t, fmt.Sprint(shape, " fourth"), fourth, wantFourth)
	}
}

// A tensor that does not begin at a multiple of 16 bytes is read element by element.
func TestExpressionOfUnaligned(t *testing.T) {
	each(t, testExpressionOfUnaligned[float32], testExpressionOfUnaligned[float64])
}

func testExpressionOfUnaligned[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	x, row := random[T](rng, 61), random[T](rng, 13)
	out, want := make([]T, 60), make([]float64, 60)
	operands := []Operand{{Data: address(t, x[1:]), Reach: Same}, NewOperand(address(t, row[1:]), 60, 1, 5, 12)}
	run(t, "elementwise"+suffix[T](), [3]uint32{1, 1, 1}, uint32(60), expression(t, operands, []Instruction{{Op: Sub, X: 0, Y: 1, Store: 1}}, address(t, out)))
	for i := range want {
		want[i] = float64(x[1+i]) - float64(row[1+i%12])
	}
	compare(t, "x - row", out, want)
}

// An expression has as many parts as there is room for.
func TestNewExpression(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct {
		operands, code, results int
		ok                      bool
	}{{MaxOperands, MaxInstructions, MaxResults, true}, {MaxOperands + 1, 1, 1, false}, {1, MaxInstructions + 1, 1, false}, {1, 1, MaxResults + 1, false}} {
		_, err := NewExpression(make([]Operand, c.operands), make([]Instruction, c.code), make([]uint64, c.results)...)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
