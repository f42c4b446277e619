package kernels

// The kernels compiled for the host.

import (
	"fmt"
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

// emulate runs a kernel on the host. The arguments are addresses of values, as cuLaunchKernel's are.
func emulate(t testing.TB, name string, grid [3]uint32, args []argument) {
	t.Helper()
	l := emulator(t)
	var pin runtime.Pinner
	defer pin.Unpin()
	cells, pointers := make([]uint64, len(args)), make([]unsafe.Pointer, len(args))
	pin.Pin(&cells[0])
	pin.Pin(&pointers[0])
	for i, a := range args {
		cells[i] = a.bits
		if a.data != nil {
			pin.Pin(a.data)
			cells[i] = uint64(uintptr(a.data))
		}
		pointers[i] = unsafe.Pointer(&cells[i])
	}
	switch rc := l.emulate(name, &grid[0], Threads, unsafe.Pointer(&pointers[0])); rc {
	case 0:
	case 1:
		t.Fatalf("%s: the threads of a block do not meet at the same barrier", name)
	default:
		t.Fatalf("%s: no such kernel", name)
	}
}

func TestStructsAreTheSameInC(t *testing.T) {
	l := emulator(t)
	for name, size := range map[string]uintptr{
		"Operand": unsafe.Sizeof(Operand{}), "Instruction": unsafe.Sizeof(Instruction{}), "View": unsafe.Sizeof(View{}), "Window": unsafe.Sizeof(Window{}),
		"Product": unsafe.Sizeof(Product{}), "Settings": unsafe.Sizeof(Settings{}), "Parameter": unsafe.Sizeof(Parameter{}),
	} {
		if got := l.size(name); got != int32(size) {
			t.Errorf("%s: %d bytes in C++, %d in Go", name, got, size)
		}
	}
}
