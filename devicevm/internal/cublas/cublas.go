// Package cublas multiplies matrices with NVIDIA's cuBLAS, loaded at run time where it is installed. No toolkit
// and no cgo are needed, and without the library [Load] returns an error that says what was tried: the device
// VM then uses kernels of its own.
//
// # Ownership
//
// A [Handle] belongs to one stream and one workspace, which outlive it. Matrices are the caller's.
//
// # Concurrency
//
// A Handle is for one goroutine at a time. Load and New may be called from any.
//
// # Errors
//
// A failing call returns an *[Error]. Work that fails on the device shows as the driver's own errors.
//
// # Platforms
//
// Linux and Windows on amd64 and arm64, with cuBLAS 11, 12 or 13.
package cublas

import (
	"errors"
	"fmt"
	"sync"
)

// ErrUnavailable is what Load's errors are.
var ErrUnavailable = errors.New("cuBLAS is not available")

// Error is a failed call.
type Error struct {
	Call string
	Code int // cublasStatus_t
}

// Error returns the call, and the status by name and number.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.name(), e.Code) }

// name is the status in cublas_api.h.
func (e *Error) name() string {
	switch e.Code {
	case 1:
		return "not initialized"
	case 3:
		return "allocation failed"
	case 7:
		return "invalid value"
	case 8:
		return "architecture mismatch"
	case 11:
		return "mapping error"
	case 13:
		return "execution failed"
	case 14:
		return "internal error"
	case 15:
		return "not supported"
	case 16:
		return "license error"
	}
	return "unknown status"
}

// Library is the loaded library. The comment of a symbol is its signature in cublas_api.h; all return
// cublasStatus_t. Sizes and enumerations are int, strides long long, handles pointers.
type Library struct {
	create       uintptr // (cublasHandle_t *)
	destroy      uintptr // (cublasHandle_t)
	version      uintptr // (cublasHandle_t, int *)
	setStream    uintptr // (cublasHandle_t, cudaStream_t)
	setWorkspace uintptr // (cublasHandle_t, void *, size_t)
	setMathMode  uintptr // (cublasHandle_t, cublasMath_t)
	// (handle, transa, transb, m, n, k, alpha *, A, lda, B, ldb, beta *, C, ldc)
	sgemm, dgemm uintptr
	// (handle, transa, transb, m, n, k, alpha *, A, lda, strideA, B, ldb, strideB, beta *, C, ldc, strideC, batch)
	sgemmBatched, dgemmBatched uintptr
}

// Load returns the library, which is one for the process.
func Load() (*Library, error) { return loadOnce() }

var loadOnce = sync.OnceValues(func() (*Library, error) {
	lookup, err := open()
	if err != nil {
		return nil, fmt.Errorf("cublas: %w: %w", ErrUnavailable, err)
	}
	return bind(lookup)
})

// bind looks the symbols up.
func bind(lookup func(name string) (uintptr, error)) (*Library, error) {
	l := new(Library)
	for _, e := range []struct {
		symbol *uintptr
		name   string
	}{
		{&l.create, "cublasCreate_v2"},
		{&l.destroy, "cublasDestroy_v2"},
		{&l.version, "cublasGetVersion_v2"},
		{&l.setStream, "cublasSetStream_v2"},
		{&l.setWorkspace, "cublasSetWorkspace_v2"},
		{&l.setMathMode, "cublasSetMathMode"},
		{&l.sgemm, "cublasSgemm_v2"},
		{&l.dgemm, "cublasDgemm_v2"},
		{&l.sgemmBatched, "cublasSgemmStridedBatched"},
		{&l.dgemmBatched, "cublasDgemmStridedBatched"},
	} {
		addr, err := lookup(e.name)
		if err == nil && addr == 0 {
			err = errors.New("the symbol is null")
		}
		if err != nil {
			return nil, fmt.Errorf("cublas: %w: the library was found, but lacks %s; cuBLAS 11 or newer is needed: %w", ErrUnavailable, e.name, err)
		}
		*e.symbol = addr
	}
	return l, nil
}
