// Package leak checks that a test leaves no goroutine and no open file behind.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// grace is how long goroutines that were told to end may take to do so.
const grace = 5 * time.Second

// Check makes t fail if, when t and its own cleanups have ended, more goroutines or open files are
// left than there are now. Call it first in a test, and not in parallel tests: it counts the whole
// process.
func Check(t testing.TB) {
	t.Helper()
	goroutines, files := stacks(), openFiles()
	t.Cleanup(func() {
		if t.Failed() {
			return // a failed test may well leave things behind, and its own message matters more
		}
		deadline := time.Now().Add(grace)
		for {
			left := added(goroutines, stacks())
			open := openFiles()
			if len(left) == 0 && open <= files {
				return
			}
			if time.Now().After(deadline) {
				for _, stack := range left {
					t.Errorf("goroutine left running:\n%s", stack)
				}
				if open > files {
					t.Errorf("open files: %d, were %d", open, files)
				}
				return
			}
			runtime.Gosched()
			time.Sleep(time.Millisecond)
		}
	})
}

// stacks returns the stack of every goroutine that a test could have started, by its id.
func stacks() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	found := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		var id int
		if _, err := fmt.Sscanf(stack, "goroutine %d ", &id); err != nil || belongsToRuntime(stack) {
			continue
		}
		found[fmt.Sprint(id)] = stack
	}
	return found
}

// belongsToRuntime reports whether the runtime or package testing started the goroutine.
func belongsToRuntime(stack string) bool {
	for _, own := range []string{
		"testing.(*T).Run(", "testing.(*F).Fuzz", "testing.runTests", "testing.tRunner.func", "testing.(*B).run",
		"runtime.runFinalizers", "runtime.runfinq", "runtime.runCleanups", "created by runtime", "os/signal.loop", "runtime.ReadTrace",
		"runtime.ensureSigM", "internal/leak.stacks(",
	} {
		if strings.Contains(stack, own) {
			return true
		}
	}
	return false
}

func added(before, after map[string]string) []string {
	var left []string
	for id, stack := range after {
		if _, ok := before[id]; !ok {
			left = append(left, stack)
		}
	}
	return left
}

// openFiles counts the files of file systems that the process has open, where the system lists them, and
// returns 0 elsewhere. Devices, pipes and the like are not counted: the runtime and a GPU's driver open
// some at moments of their own, and keep them.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && isFile(name) { // the one that lists the folder is gone by now
			n++
		}
	}
	return n
}

// isFile reports whether an entry of /proc/self/fd is of a file in a file system.
func isFile(name string) bool {
	for _, other := range []string{"/dev/", "/proc/", "/sys/", "/memfd:"} {
		if strings.HasPrefix(name, other) {
			return false
		}
	}
	return strings.HasPrefix(name, "/")
}
