//go:build amd64 || arm64

package cublas

// This file loads the library on Linux.

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/ebitengine/purego"
)

// candidates are where the library may be: on the loader's path, or in a toolkit that is not on it.
func candidates() []string {
	names := []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}
	all := names
	for _, dir := range []string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH"), "/usr/local/cuda"} {
		if dir == "" {
			continue
		}
		for _, name := range names {
			all = append(all, filepath.Join(dir, "lib64", name))
		}
	}
	return all
}

// open returns how to look symbols up. The library is never closed: its threads go on.
func open() (func(name string) (uintptr, error), error) {
	var failed []error
	for _, name := range candidates() {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return func(name string) (uintptr, error) { return purego.Dlsym(handle, name) }, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}
