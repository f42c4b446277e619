//go:build !((linux || windows) && (amd64 || arm64))

package cublas

// This file stands in where there is no cuBLAS.

import (
	"fmt"
	"runtime"
)

func invoke(uintptr, ...uintptr) uintptr { panic("cublas: called without a library") }

func open() (func(name string) (uintptr, error), error) {
	return nil, fmt.Errorf("there is no CUDA on %s/%s", runtime.GOOS, runtime.GOARCH)
}
