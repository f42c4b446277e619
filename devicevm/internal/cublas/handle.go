package cublas

// This file multiplies.

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// pedanticMath is CUBLAS_PEDANTIC_MATH: float32 products in float32, not in TF32's 10 bits, whatever environment
// variables say.
const pedanticMath = 2

// Handle multiplies on one stream. All its calls must be made with the device's context current
// ([driver.Device.Within]).
type Handle struct {
	lib    *Library
	handle uintptr

	// What calls point to. The Handle is on the heap, so these stay where they are.
	args      [18]uintptr
	out       uintptr
	one, zero [2]uint64 // as float32, as float64
}

// New returns a handle that issues work to stream. Its scratch memory is the n bytes at workspace, so that it
// allocates none, which a captured graph could not bear; n may be 0. cuBLAS recommends 4 MiB, and 32 MiB from
// compute capability 9.0 on.
func (l *Library) New(stream driver.Stream, workspace driver.DevicePtr, n int64) (*Handle, error) {
	if n < 0 || (n > 0) != (workspace != 0) {
		return nil, fmt.Errorf("cublas: New: workspace is %#x with %d bytes, must be memory of that size", uintptr(workspace), n)
	}
	h := &Handle{lib: l}
	h.one = [2]uint64{uint64(math.Float32bits(1)), math.Float64bits(1)}
	if err := h.call("cublasCreate", l.create, uintptr(unsafe.Pointer(&h.out))); err != nil {
		return nil, err
	}
	h.handle = h.out
	err := h.call("cublasSetStream", l.setStream, h.handle, uintptr(stream)) // which also resets the workspace: it comes first
	if err == nil && n > 0 {
		err = h.call("cublasSetWorkspace", l.setWorkspace, h.handle, uintptr(workspace), uintptr(n))
	}
	if err == nil {
		err = h.call("cublasSetMathMode", l.setMathMode, h.handle, pedanticMath)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Use makes Multiply issue work to stream from now on, and work in the n bytes at workspace: products that may run at
// once must not share any.
func (h *Handle) Use(stream driver.Stream, workspace driver.DevicePtr, n int64) error {
	if h.handle == 0 {
		return errors.New("cublas: Use: the handle is closed")
	}
	err := h.call("cublasSetStream", h.lib.setStream, h.handle, uintptr(stream)) // which also resets the workspace: it comes first
	if err == nil && n > 0 {
		err = h.call("cublasSetWorkspace", h.lib.setWorkspace, h.handle, uintptr(workspace), uintptr(n))
	}
	return err
}

// Version returns the library's version, such as 130000.
func (h *Handle) Version() (int, error) {
	h.out = 0
	if err := h.call("cublasGetVersion", h.lib.version, h.handle, uintptr(unsafe.Pointer(&h.out))); err != nil {
		return 0, err
	}
	return int(int32(h.out)), nil
}

// Close releases the handle. Work that was issued must have completed. A second call does nothing.
func (h *Handle) Close() error {
	if h.handle == 0 {
		return nil
	}
	handle := h.handle
	h.handle = 0
	return h.call("cublasDestroy", h.lib.destroy, handle)
}

// Product is C = A B of row-major matrices: C is (M, N), A (M, K) and B (K, N), after transposition. Row* are the
// elements from one row in memory to the next. With a Batch above 1 there are that many products, whose matrices are
// Batch* elements apart.
type Product struct {
	Float64                bool // else float32
	TransposeA, TransposeB bool
	M, N, K                int
	A, B, C                driver.DevicePtr
	RowA, RowB, RowC       int
	Batch                  int
	BatchA, BatchB, BatchC int
}

// Multiply issues p. It does not wait.
func (h *Handle) Multiply(p Product) error {
	if h.handle == 0 {
		return errors.New("cublas: Multiply: the handle is closed")
	}
	if p.M == 0 || p.N == 0 {
		return nil
	}
	for _, f := range [...]struct {
		name  string
		value int
	}{{"M", p.M}, {"N", p.N}, {"K", p.K}, {"RowA", p.RowA}, {"RowB", p.RowB}, {"RowC", p.RowC}, {"Batch", p.Batch}} {
		if f.value < 0 || f.value > math.MaxInt32 {
			return fmt.Errorf("cublas: Multiply: %s is %d, must be from 0 to %d", f.name, f.value, math.MaxInt32)
		}
	}
	// cuBLAS is column-major. A row-major C is its transposed: C' = B' A', and so is each operand.
	opA, opB := operation(p.TransposeA), operation(p.TransposeB)
	one, zero := uintptr(unsafe.Pointer(&h.one[0])), uintptr(unsafe.Pointer(&h.zero[0]))
	if p.Float64 {
		one, zero = uintptr(unsafe.Pointer(&h.one[1])), uintptr(unsafe.Pointer(&h.zero[1]))
	}
	m, n, k := uintptr(p.N), uintptr(p.M), uintptr(p.K)
	a, b, c := uintptr(p.B), uintptr(p.A), uintptr(p.C)
	rowA, rowB, rowC := uintptr(max(p.RowB, 1)), uintptr(max(p.RowA, 1)), uintptr(max(p.RowC, 1))
	if p.Batch > 1 {
		name, fn := "cublasSgemmStridedBatched", h.lib.sgemmBatched
		if p.Float64 {
			name, fn = "cublasDgemmStridedBatched", h.lib.dgemmBatched
		}
		return h.call(name, fn, h.handle, opB, opA, m, n, k, one, a, rowA, uintptr(p.BatchB), b, rowB, uintptr(p.BatchA),
			zero, c, rowC, uintptr(p.BatchC), uintptr(p.Batch))
	}
	name, fn := "cublasSgemm", h.lib.sgemm
	if p.Float64 {
		name, fn = "cublasDgemm", h.lib.dgemm
	}
	return h.call(name, fn, h.handle, opB, opA, m, n, k, one, a, rowA, b, rowB, zero, c, rowC)
}

// operation is a cublasOperation_t.
func operation(transpose bool) uintptr {
	if transpose {
		return 1
	}
	return 0
}

// call calls a function. Addresses among args are of fields of h.
func (h *Handle) call(name string, fn uintptr, args ...uintptr) error {
	n := copy(h.args[:], args)
	code := int(int32(invoke(fn, h.args[:n]...)))
	runtime.KeepAlive(h)
	if code != 0 {
		return &Error{name, code}
	}
	return nil
}
