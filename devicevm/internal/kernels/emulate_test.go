package kernels

// The kernels compiled for the host, and how tests call them.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

var names = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

type library struct {
	emulate func(name string, grid *uint32, threads uint32, args unsafe.Pointer) int32
	size    func(name string) int32
}

// build compiles the kernels for the host.
var build = sync.OnceValues(func() (*library, error) {
	compiler := ""
	for _, c := range []string{"g++", "clang++", "c++"} {
		if path, err := exec.LookPath(c); err == nil {
			compiler = path
			break
		}
	}
	if compiler == "" {
		return nil, errNoCompiler
	}
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var list strings.Builder
	for _, m := range names.FindAllStringSubmatch(PTX, -1) {
		fmt.Fprintf(&list, "KERNEL(%s)\n", m[1])
	}
	if err := os.WriteFile(filepath.Join(dir, "kernels.inc"), []byte(list.String()), 0o600); err != nil {
		return nil, err
	}
	object := filepath.Join(dir, "kernels.so")
	out, err := exec.Command(compiler, "-std=c++17", "-O1", "-ffp-contract=off", "-x", "c++", "-DEMULATE", "-Isrc", "-Itestdata", "-I"+dir,
		"-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unknown-pragmas", "testdata/emulate.cpp", "-o", object).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	handle, err := purego.Dlopen(object, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	l := &library{}
	purego.RegisterLibFunc(&l.emulate, handle, "emulate")
	purego.RegisterLibFunc(&l.size, handle, "size")
	return l, nil
})

var errNoCompiler = fmt.Errorf("no C++ compiler")

// emulator returns the compiled kernels. Without a C++ compiler it skips the test, but in CI.
func emulator(t testing.TB) *library {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("kernels are run on the host on Linux only")
	}
	l, err := build()
	if err == errNoCompiler && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var running sync.Mutex // the emulation has global state

// run runs a kernel on a grid of blocks, as cuLaunchKernel would: an argument is a slice, for its address, a
// pointer, or a value.
func run(t testing.TB, name string, grid [3]uint32, args ...any) {
	t.Helper()
	l := emulator(t)
	var pin runtime.Pinner
	defer pin.Unpin()
	pointers := make([]unsafe.Pointer, len(args))
	hold := func(p unsafe.Pointer) unsafe.Pointer { // of a pointer argument: the address of a cell with it
		if p == nil {
			cell := new(uintptr)
			pin.Pin(cell)
			return unsafe.Pointer(cell)
		}
		pin.Pin(p)
		cell := new(unsafe.Pointer)
		*cell = p
		pin.Pin(cell)
		return unsafe.Pointer(cell)
	}
	value := func(p unsafe.Pointer) unsafe.Pointer { pin.Pin(p); return p }
	for i, a := range args {
		switch a := a.(type) {
		case []float32:
			pointers[i] = hold(unsafe.Pointer(unsafe.SliceData(a)))
		case []float64:
			pointers[i] = hold(unsafe.Pointer(unsafe.SliceData(a)))
		case []int32:
			pointers[i] = hold(unsafe.Pointer(unsafe.SliceData(a)))
		case []Instruction:
			pointers[i] = hold(unsafe.Pointer(unsafe.SliceData(a)))
		case []Parameter:
			pointers[i] = hold(unsafe.Pointer(unsafe.SliceData(a)))
		case *View:
			pointers[i] = hold(unsafe.Pointer(a))
		case *Settings:
			pointers[i] = hold(unsafe.Pointer(a))
		case *uint64:
			pointers[i] = hold(unsafe.Pointer(a))
		case *uint32:
			pointers[i] = hold(unsafe.Pointer(a))
		case uint32:
			pointers[i] = value(unsafe.Pointer(&a))
		case uint64:
			pointers[i] = value(unsafe.Pointer(&a))
		case float32:
			pointers[i] = value(unsafe.Pointer(&a))
		case float64:
			pointers[i] = value(unsafe.Pointer(&a))
		case *Window:
			pointers[i] = hold(unsafe.Pointer(a))
		case *Product:
			pointers[i] = hold(unsafe.Pointer(a))
		default:
			t.Fatalf("argument %d is a %T", i, a)
		}
	}
	pin.Pin(&pointers[0])
	running.Lock()
	defer running.Unlock()
	switch rc := l.emulate(name, &grid[0], Threads, unsafe.Pointer(&pointers[0])); rc {
	case 0:
	case 1:
		t.Fatalf("%s: the threads of a block do not meet at the same barrier", name)
	default:
		t.Fatalf("%s: no such kernel", name)
	}
}

// address is where x is, until the test ends.
func address[T float](t testing.TB, x []T) uint64 {
	var pin runtime.Pinner
	pin.Pin(&x[0])
	t.Cleanup(pin.Unpin)
	return uint64(uintptr(unsafe.Pointer(&x[0])))
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

// each runs a test for both dtypes.
func each(t *testing.T, f32, f64 func(t *testing.T)) {
	t.Run("float32", f32)
	t.Run("float64", f64)
}

func TestStructsAreTheSameInC(t *testing.T) {
	l := emulator(t)
	for name, size := range map[string]uintptr{
		"Instruction": unsafe.Sizeof(Instruction{}), "View": unsafe.Sizeof(View{}), "Window": unsafe.Sizeof(Window{}),
		"Product": unsafe.Sizeof(Product{}), "Settings": unsafe.Sizeof(Settings{}), "Parameter": unsafe.Sizeof(Parameter{}),
	} {
		if got := l.size(name); got != int32(size) {
			t.Errorf("%s: %d bytes in C++, %d in Go", name, got, size)
		}
	}
}

// Every kernel is called by some test of this package.
func TestEveryKernelIsTested(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	all := names.FindAllStringSubmatch(PTX, -1)
	if len(all) < 40 {
		t.Fatalf("only %d kernels in the PTX", len(all))
	}
	for _, m := range all {
		base := strings.TrimSuffix(strings.TrimSuffix(m[1], "_f32"), "_f64")
		if !strings.Contains(text.String(), `"`+base) {
			t.Errorf("no test runs %s", m[1])
		}
	}
}
