//go:build !race

package nontemporal

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

const (
	align = 32  // of what an instruction writes
	block = 128 // that a round copies
)

var past = cpu.X86.HasAVX

func store(dst, src []byte) {
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % align)
	if !past || len(dst) < head+block {
		copy(dst, src)
		return
	}
	n := (len(dst) - head) / block
	copyBlocks(&dst[head], &src[head], n)
	copy(dst[:head], src)
	copy(dst[head+n*block:], src[head+n*block:])
}

// copyBlocks copies n > 0 blocks to dst, which is aligned.
//
//go:noescape
func copyBlocks(dst, src *byte, n int)

func fence()
