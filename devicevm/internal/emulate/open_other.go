//go:build !linux

package emulate

import (
	"fmt"
	"runtime"
)

// open loads the compiled kernels, on Linux.
func (*Library) open(string) error {
	return fmt.Errorf("%w: not on %s", errUnavailable, runtime.GOOS)
}
