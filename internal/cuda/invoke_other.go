//go:build !((linux || windows) && (amd64 || arm64))

package cuda

// This file stands in for calls, which are never made, where CUDA does not exist.

import (
	"fmt"
	"runtime"
)

func invoke(uintptr, ...uintptr) uintptr { panic("cuda: called without a library") }

func openLibrary() (func(name string) (uintptr, error), error) {
	return nil, fmt.Errorf("there is no CUDA on %s/%s", runtime.GOOS, runtime.GOARCH)
}
