package kernels

// How tests run kernels: each on the host, and on a GPU where there is one.

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/internal/leak"
)

// argument is one of a kernel: a value, or the address of size bytes of memory.
type argument struct {
	bits uint64
	data unsafe.Pointer
	size int

	// The words of a struct by value, the last, with the addresses in it replaced.
	words func(replace func(at *uint64)) []uint64
}

// arguments are what a test gives: slices and pointers for their addresses, values as they are.
func arguments(t testing.TB, args []any) []argument {
	t.Helper()
	all := make([]argument, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case []float32:
			all[i] = memory(a)
		case []float64:
			all[i] = memory(a)
		case []int32:
			all[i] = memory(a)
		case *Expression:
			all[i].words = func(replace func(at *uint64)) []uint64 {
				e := *a
				replaceAll(e.Operand[:], e.Result[:], replace)
				return Words(&e)
			}
		case *Product:
			all[i].words = func(replace func(at *uint64)) []uint64 {
				p := *a
				replaceAll(p.Then.Operand[:], p.Then.Result[:], replace)
				return Words(&p)
			}
		case *PoolDiff:
			all[i].words = func(replace func(at *uint64)) []uint64 {
				p := *a
				replaceAll(p.Then.Operand[:], p.Then.Result[:], replace)
				return Words(&p)
			}
		case *Sequence:
			all[i].words = func(replace func(at *uint64)) []uint64 {
				s := *a
				replaceAll(s.Operand[:], s.Result[:], replace)
				return Words(&s)
			}
		case *Parameters:
			all[i].words = func(replace func(at *uint64)) []uint64 {
				all := *a
				for k := range all {
					p := &all[k]
					for _, at := range []*uint64{&p.Weights, &p.Gradient, &p.First, &p.Second} {
						replace(at)
					}
				}
				return Words(&all)
			}
		case *View:
			all[i].words = func(func(*uint64)) []uint64 { return Words(a) }
		case *Settings:
			all[i] = memory(unsafe.Slice(a, 1))
		case *Window:
			all[i].words = func(func(*uint64)) []uint64 { return Words(a) }
		case *Run:
			all[i] = memory(unsafe.Slice(a, 1))
		case *uint32:
			all[i] = memory(unsafe.Slice(a, 1))
		case uint32:
			all[i].bits = uint64(a)
		case uint64:
			all[i].bits = a
		case float32:
			all[i].bits = uint64(math.Float32bits(a))
		case float64:
			all[i].bits = math.Float64bits(a)
		default:
			t.Fatalf("argument %d is a %T", i, a)
		}
	}
	return all
}

func replaceAll(operands []Operand, results []uint64, replace func(at *uint64)) {
	for k := range operands {
		replace(&operands[k].Data)
	}
	for k := range results {
		replace(&results[k])
	}
}

// expression is one whose parts there is room for.
func expression(t testing.TB, operands []Operand, code []Instruction, results ...uint64) *Expression {
	t.Helper()
	e, err := NewExpression(operands, code, results...)
	check(t, err)
	return &e
}

func memory[T any](x []T) argument {
	var zero T
	return argument{data: unsafe.Pointer(unsafe.SliceData(x)), size: len(x) * int(unsafe.Sizeof(zero))}
}

// onGPU says where run runs kernels. Tests of this package run one after another.
var onGPU bool

// run runs a kernel on a grid of blocks.
func run(t testing.TB, name string, grid [3]uint32, args ...any) {
	t.Helper()
	if onGPU {
		launch(t, name, grid, arguments(t, args))
	} else {
		emulated(t, name, grid, arguments(t, args))
	}
}

// everywhere runs a test on the host, and on a GPU if there is one.
func everywhere(t *testing.T, test func(t *testing.T)) {
	leak.Check(t)
	t.Run("host", test)
	if gpu(t) {
		onGPU = true
		defer func() { onGPU = false }()
		t.Run("cuda", test)
	}
}

// each runs a test for both dtypes, everywhere.
func each(t *testing.T, f32, f64 func(t *testing.T)) {
	everywhere(t, func(t *testing.T) {
		t.Run("float32", f32)
		t.Run("float64", f64)
	})
}

// slices that arguments refer to by address, for the GPU to have copies of.
var addressed = map[uint64]argument{}

// address is where x is, until the test ends.
func address[T float](t testing.TB, x []T) uint64 {
	var pin runtime.Pinner
	pin.Pin(&x[0])
	at := uint64(uintptr(unsafe.Pointer(&x[0])))
	addressed[at] = memory(x)
	t.Cleanup(func() {
		delete(addressed, at)
		pin.Unpin()
	})
	return at
}

// float is a dtype of the kernels.
type float interface{ float32 | float64 }

func suffix[T float]() string {
	if unsafe.Sizeof(T(0)) == 4 {
		return "_f32"
	}
	return "_f64"
}

// random returns n values between -2 and 2.
func random[T float](rng *rand.Rand, n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(rng.Float64()*4 - 2)
	}
	return x
}

// compare checks got against want, relatively to the larger of want and 1.
func compare[T float](t *testing.T, what string, got []T, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	limit := 1e-12
	if unsafe.Sizeof(T(0)) == 4 {
		limit = 2e-5
	}
	for i, w := range want {
		g := float64(got[i])
		if math.IsNaN(g) && math.IsNaN(w) || g == w || float64(T(w)) == g {
			continue
		}
		if d := math.Abs(g - w); !(d <= limit*max(1, math.Abs(w))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

// Every kernel is in the PTX, and called by some test of this package.
func TestEveryKernelIsTested(t *testing.T) {
	leak.Check(t)
	files, err := filepath.Glob("*_test.go")
	check(t, err)
	var text strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		check(t, err)
		text.Write(b)
	}
	all := emulate.Load(t).Names()
	var compiled []string
	for _, m := range regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`).FindAllStringSubmatch(PTX, -1) {
		compiled = append(compiled, m[1])
	}
	slices.Sort(compiled)
	if !slices.Equal(all, compiled) || len(all) < 40 {
		t.Errorf("the source has the kernels\n%v\nthe PTX\n%v", all, compiled)
	}
	for _, name := range all {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_f32"), "_f64")
		if !strings.Contains(text.String(), `"`+base) {
			t.Errorf("no test runs %s", name)
		}
	}
}

// The PTX has no functions but one. The driver's compiler (580, CUDA 13.0) did not find another one that was there, which a
// GPU's tests alone show: "Unresolved extern function".
func TestFunctionsOfPTX(t *testing.T) {
	leak.Check(t)
	for _, m := range regexp.MustCompile(`(?m)^[^/\n]*\.func\s+(?:\([^)]*\)\s*)?(\w+)`).FindAllStringSubmatch(PTX, -1) {
		if !strings.HasPrefix(m[1], "_ZL8functionI") {
			t.Errorf("%s is not inlined", m[1])
		}
	}
}
