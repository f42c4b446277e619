//go:build (linux || windows) && (amd64 || arm64)

package cublas

// This file calls C functions.

import "github.com/ebitengine/purego"

func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
