package kernels

// This file checks what the source of kernels must not have.

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/pintensor/pin/devicevm/internal/kernels/src"
	"github.com/pintensor/pin/internal/leak"
)

// No kernel uses __syncthreads, past which clang 14 moves reads of shared memory: see sync in device.cuh.
func TestBarriers(t *testing.T) {
	leak.Check(t)
	err := fs.WalkDir(src.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(src.Files, path)
		if bytes.Contains(text, []byte("__syncthreads(")) {
			t.Errorf("%s calls __syncthreads, not sync", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
