// Package cuda13 tests the header of this folder. There is nothing to import: see README.md.
package cuda13

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

// compiler returns a C compiler. Without one it skips the test, but fails it in CI.
func compiler(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("there is no C compiler")
	}
	t.Skip("there is no C compiler")
	return ""
}

// build compiles the program with a toolkit's header, behind this folder's if with is set.
func build(t *testing.T, toolkit string, with bool) (program string, output []byte, err error) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "program")
	args := []string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-o", program}
	if with {
		args = append(args, "-I.")
	}
	args = append(args, "-Itestdata/"+toolkit, "-Wno-unused-parameter", "testdata/main.c")
	output, err = exec.Command(compiler(t), args...).CombinedOutput()
	return program, output, err
}

func TestOldCallsReachTheDriver(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct{ toolkit, want string }{
		{"old", `cuCtxCreate_v2 8 1
cuMemAdvise 1000 64 5 -1
cuMemAdvise 1000 64 5 2
cuMemPrefetchAsync 2000 128 1 0x5
cuMemPrefetchAsync 2000 128 -1 0x5
cuGraphAddDependencies 0x60 0xf 0x7 1
cuGraphGetEdges 0x60 0xf 0x7 3
`},
		{"new", `cuCtxCreate_v2 8 1
cuMemAdvise_v2 1000 64 5 2:0
cuMemAdvise_v2 1000 64 5 1:2
cuMemPrefetchAsync_v2 2000 128 1:1 0 0x5
cuMemPrefetchAsync_v2 2000 128 2:0 0 0x5
cuGraphAddDependencies_v2 0x60 0xf 0x7 0 1
cuGraphGetEdges_v2 0x60 0xf 0x7 0 3
`},
	} {
		t.Run("toolkit="+c.toolkit, func(t *testing.T) {
			program, output, err := build(t, c.toolkit, true)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			got, err := exec.Command(program).CombinedOutput()
			if err != nil || string(got) != c.want {
				t.Errorf("the driver saw (%v)\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

// TestHeaderIsNeeded: without the header the program compiles for CUDA 12, and not for CUDA 13.
func TestHeaderIsNeeded(t *testing.T) {
	leak.Check(t)
	if _, output, err := build(t, "old", false); err != nil {
		t.Errorf("CUDA 12: %v\n%s", err, output)
	}
	if _, _, err := build(t, "new", false); err == nil {
		t.Error("CUDA 13: it compiles without the header")
	}
}
