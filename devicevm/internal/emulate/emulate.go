// Package emulate runs the CUDA kernels on the host, for tests: compiled as C++ by whatever compiler there is, a
// block after the other, the threads of a block as coroutines. [Open] has a device around them that passes for
// a CUDA device, so that everything above the driver can be tested without a GPU.
//
// # Platforms
//
// Linux with a C++ compiler. Elsewhere, and without one, tests are skipped, but fail in CI.
package emulate

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/devicevm/internal/kernels/src"
)

//go:embed cpp
var files embed.FS

// Library is the compiled kernels.
type Library struct {
	names []string
	run   func(name string, grid *uint32, threads uint32, args unsafe.Pointer) int32
	size  func(name string) int32
	mu    sync.Mutex // the emulation has global state
}

var errUnavailable = errors.New("kernels can't be run on the host")

// Available reports whether kernels can be run on the host, or must be because this is CI.
func Available() bool {
	_, err := load()
	return !errors.Is(err, errUnavailable) || os.Getenv("CI") != ""
}

// Load returns the library, which is compiled once for the process. Without a C++ compiler it skips the test, but
// fails it in CI.
func Load(t testing.TB) *Library {
	t.Helper()
	l, err := load()
	if errors.Is(err, errUnavailable) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var load = sync.OnceValues(func() (*Library, error) {
	compiler, err := findCompiler()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	names, err := write(dir)
	if err != nil {
		return nil, err
	}
	object := filepath.Join(dir, "kernels.so")
	out, err := exec.Command(compiler, "-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-x", "c++", "-DEMULATE", "-I", dir,
		"-shared", "-fPIC", "-Wall", "-Werror", "-Wno-unknown-pragmas", filepath.Join(dir, "emulate.cpp"), "-o", object).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	l := &Library{names: names}
	return l, l.open(object)
})

func findCompiler() (string, error) {
	for _, c := range []string{"g++", "clang++", "c++"} {
		if path, err := exec.LookPath(c); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no C++ compiler", errUnavailable)
}

// kernel finds kernels in the source.
var kernel = regexp.MustCompile(`(?m)^(?:both\((\w+),|extern "C" __global__ void (\w+)\()`)

// write puts all source into dir, with a list of the kernels, which it returns.
func write(dir string) (names []string, err error) {
	var list strings.Builder
	for _, from := range []fs.FS{src.Files, files} {
		err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(from, path)
			if err != nil {
				return err
			}
			for _, m := range kernel.FindAllSubmatch(text, -1) {
				if one := string(m[2]); one != "" {
					names = append(names, one)
				} else {
					names = append(names, string(m[1])+"_f32", string(m[1])+"_f64")
				}
			}
			return os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o600)
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&list, "KERNEL(%s)\n", name)
	}
	return names, os.WriteFile(filepath.Join(dir, "kernels.inc"), []byte(list.String()), 0o600)
}

// Names returns the kernels' names, sorted.
func (l *Library) Names() []string { return slices.Clone(l.names) }

// Size returns how large C++ finds a struct, or -1.
func (l *Library) Size(name string) int { return int(l.size(name)) }

// Run runs a kernel on a grid of blocks. args are the values of its parameters, in the low bytes; addresses must be
// of memory that does not move.
func (l *Library) Run(name string, grid [3]uint32, threads uint32, args []uint64) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	cells, pointers := slices.Clone(args), make([]unsafe.Pointer, len(args)+1)
	pin.Pin(&pointers[0])
	for i := range cells {
		pin.Pin(&cells[i])
		pointers[i] = unsafe.Pointer(&cells[i])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch rc := l.run(name, &grid[0], threads, unsafe.Pointer(&pointers[0])); rc {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: the threads of a block do not meet at the same barrier", name)
	default:
		return fmt.Errorf("%s: no such kernel", name)
	}
}
