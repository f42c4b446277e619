package pintensor

import (
	"errors"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pintensor/pin/internal/leak"
)

// The real system call: node 0 exists everywhere, unless the kernel has no nodes or the process is not allowed to.
func TestBindMemory(t *testing.T) {
	leak.Check(t)
	mem, _, _ := newMemory(1<<20, pageSize)
	s := unsafe.Slice((*byte)(mem), 1<<20)
	s[12345] = 7
	for _, node := range []int{0, noNode} {
		if err := bindMemory(mem, 1<<20, node); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
			t.Errorf("node %d: %v", node, err)
		}
	}
	for _, node := range []int{1000, 1 << 20} {
		if err := bindMemory(mem, 1<<20, node); err == nil {
			t.Errorf("node %d: no error", node)
		}
	}
	if s[12345] != 7 {
		t.Error("the contents are gone")
	}
}
