//go:build (linux || windows) && (amd64 || arm64)

package cuda

// This file calls C functions.

import "github.com/ebitengine/purego"

// invoke calls the C function at fn. It makes no copy of args, and so allocates nothing.
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
