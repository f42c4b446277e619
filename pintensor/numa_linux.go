package pintensor

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Policies and flags of mbind(2), from linux/mempolicy.h.
const (
	mpolDefault   = 0
	mpolPreferred = 1
	mpolMove      = 1 << 1 // MPOL_MF_MOVE: pages that are elsewhere are moved
)

// bindMemory makes the system take the pages of the n bytes at mem from the node, and moves those that are there
// already; noNode undoes it. mem starts on a page.
func bindMemory(mem unsafe.Pointer, n uintptr, node int) error {
	var mask [1024 / 64]uint64
	mode, bits, flags := uintptr(mpolDefault), uintptr(0), uintptr(0)
	masks := unsafe.Pointer(nil)
	if node != noNode {
		if node >= len(mask)*64 {
			return fmt.Errorf("mbind: node %d: %w", node, unix.EINVAL)
		}
		mask[node/64] = 1 << (node % 64)
		mode, bits, flags = mpolPreferred, uintptr(len(mask)*64+1), mpolMove // the kernel takes one bit less than it is told
		masks = unsafe.Pointer(&mask)
	}
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(mem), n, mode, uintptr(masks), bits, flags)
	runtime.KeepAlive(mem)
	if errno != 0 {
		return fmt.Errorf("binding %d bytes to NUMA node %d: %w", n, node, os.NewSyscallError("mbind", errno))
	}
	return nil
}
