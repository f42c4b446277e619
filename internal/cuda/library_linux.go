//go:build amd64 || arm64

package cuda

// This file loads the library on Linux.

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// libraries are the driver's names. The last one is where WSL has it, off the loader's path. The name
// without a version is not among them: it is the toolkit's stub on machines without a driver.
var libraries = []string{"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

// openLibrary returns how to look symbols up. The library is never closed: it can't be loaded again.
func openLibrary() (func(name string) (uintptr, error), error) {
	var failed error
	for _, name := range libraries {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return func(name string) (uintptr, error) { return purego.Dlsym(handle, name) }, nil
		}
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	return nil, failed
}
