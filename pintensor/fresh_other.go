//go:build !linux

package pintensor

import "unsafe"

// largeMemory returns n bytes of the heap, and whether they are zeros.
func largeMemory(n uintptr) (mem unsafe.Pointer, zeros bool) {
	return unsafe.Pointer(unsafe.SliceData(make([]byte, n))), true
}
