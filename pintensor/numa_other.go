//go:build !linux

package pintensor

import (
	"errors"
	"unsafe"
)

// bindMemory is for Linux. Elsewhere there is one node as far as this package knows, and it is not called.
func bindMemory(unsafe.Pointer, uintptr, int) error { return errors.ErrUnsupported }
