//go:build amd64 || arm64

package cuda

// This file loads the library on Windows.

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// openLibrary returns how to look symbols up. Only the system's folder is searched, so that a file of that
// name beside the program isn't loaded.
func openLibrary() (func(name string) (uintptr, error), error) {
	handle, err := windows.LoadLibraryEx("nvcuda.dll", 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if err != nil {
		return nil, fmt.Errorf("nvcuda.dll: %w", err)
	}
	return func(name string) (uintptr, error) { return windows.GetProcAddress(handle, name) }, nil
}
