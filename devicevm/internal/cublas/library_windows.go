//go:build amd64 || arm64

package cublas

// This file loads the library on Windows.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// open returns how to look symbols up. A toolkit's folder is searched, and the system's, but not the current one.
func open() (func(name string) (uintptr, error), error) {
	home := os.Getenv("CUDA_PATH")
	if home == "" {
		return nil, errors.New("CUDA_PATH is not set: there is no CUDA toolkit")
	}
	var failed []error
	for _, version := range []string{"13", "12", "11"} {
		for _, dir := range []string{"bin", `bin\x64`} {
			path := filepath.Join(home, dir, "cublas64_"+version+".dll")
			handle, err := windows.LoadLibraryEx(path, 0, windows.LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR|windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
			if err == nil {
				return func(name string) (uintptr, error) { return windows.GetProcAddress(handle, name) }, nil
			}
			failed = append(failed, fmt.Errorf("%s: %w", path, err))
		}
	}
	return nil, errors.Join(failed...)
}
