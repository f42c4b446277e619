//go:build linux && (amd64 || arm64)

package cublas

// This file tests the calls on a library in Go behind C function pointers, which multiplies for real, in
// column-major order as cuBLAS does: so a confusion of the two shows.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

// fake is the state of the library in a test.
type fake struct {
	lacks string
	fail  map[string]uintptr
	calls []string
	live  int // handles
	mode  uintptr
}

const fakeHandle = 0xB1A5

var (
	fakeLock sync.Mutex
	fakeNow  *fake
	symbols  = sync.OnceValue(func() map[string]uintptr {
		enter := func(name string, call func()) uintptr {
			fakeNow.calls = append(fakeNow.calls, name)
			if code := fakeNow.fail[name]; code != 0 {
				return code
			}
			call()
			return 0
		}
		pointer := func(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }
		s := map[string]uintptr{
			"cublasCreate_v2": purego.NewCallback(func(h uintptr) uintptr {
				return enter("cublasCreate", func() { *(*uintptr)(pointer(h)) = fakeHandle; fakeNow.live++ })
			}),
			"cublasDestroy_v2": purego.NewCallback(func(h uintptr) uintptr { return enter("cublasDestroy", func() { fakeNow.live-- }) }),
			"cublasGetVersion_v2": purego.NewCallback(func(h, v uintptr) uintptr {
				return enter("cublasGetVersion", func() { *(*int32)(pointer(v)) = 130102 })
			}),
			"cublasSetStream_v2": purego.NewCallback(func(h, s uintptr) uintptr { return enter("cublasSetStream", func() {}) }),
			"cublasSetWorkspace_v2": purego.NewCallback(func(h, p, n uintptr) uintptr {
				return enter("cublasSetWorkspace", func() {})
			}),
			"cublasSetMathMode": purego.NewCallback(func(h, m uintptr) uintptr { return enter("cublasSetMathMode", func() { fakeNow.mode = m }) }),
		}
		for _, f := range []struct {
			name   string
			double bool
		}{{"Sgemm", false}, {"Dgemm", true}} {
			s["cublas"+f.name+"_v2"] = purego.NewCallback(func(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc uintptr) uintptr {
				return enter("cublas"+f.name, func() {
					gemm(f.double, ta, tb, m, n, k, pointer(alpha), pointer(a), lda, 0, pointer(b), ldb, 0, pointer(beta), pointer(c), ldc, 0, 1)
				})
			})
			s["cublas"+f.name+"StridedBatched"] = purego.NewCallback(func(h, ta, tb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batch uintptr) uintptr {
				return enter("cublas"+f.name+"StridedBatched", func() {
					gemm(f.double, ta, tb, m, n, k, pointer(alpha), pointer(a), lda, sa, pointer(b), ldb, sb, pointer(beta), pointer(c), ldc, sc, batch)
				})
			})
		}
		return s
	})
)

func gemm(double bool, ta, tb, m, n, k uintptr, alpha, a unsafe.Pointer, lda, sa uintptr, b unsafe.Pointer, ldb, sb uintptr, beta, c unsafe.Pointer, ldc, sc, batch uintptr) {
	load := func(p unsafe.Pointer, i uintptr) float64 {
		if double {
			return *(*float64)(unsafe.Add(p, 8*i))
		}
		return float64(*(*float32)(unsafe.Add(p, 4*i)))
	}
	for q := range batch {
		for i := range m {
			for j := range n {
				sum := 0.0
				for l := range k {
					at, bt := i+l*lda, l+j*ldb
					if ta == 1 {
						at = l + i*lda
					}
					if tb == 1 {
						bt = j + l*ldb
					}
					sum += load(a, q*sa+at) * load(b, q*sb+bt)
				}
				place := q*sc + i + j*ldc
				sum *= load(alpha, 0)
				if load(beta, 0) != 0 {
					sum += load(beta, 0) * load(c, place)
				}
				if double {
					*(*float64)(unsafe.Add(c, 8*place)) = sum
				} else {
					*(*float32)(unsafe.Add(c, 4*place)) = float32(sum)
				}
			}
		}
	}
}

func newFake(t *testing.T) *fake {
	fakeLock.Lock()
	f := &fake{fail: map[string]uintptr{}}
	fakeNow = f
	t.Cleanup(func() {
		defer fakeLock.Unlock()
		if f.live != 0 {
			t.Errorf("%d handles are left", f.live)
		}
	})
	return f
}

func (f *fake) lookup(name string) (uintptr, error) {
	if name == f.lacks {
		return 0, errors.New("undefined symbol")
	}
	return symbols()[name], nil
}

func (f *fake) handle(t *testing.T) *Handle {
	lib, err := bind(f.lookup)
	if err != nil {
		t.Fatal(err)
	}
	h, err := lib.New(0x5, 0x1000, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestMultiply(t *testing.T) {
	leak.Check(t)
	f := newFake(t)
	h := f.handle(t)
	if v, err := h.Version(); v != 130102 || err != nil {
		t.Errorf("Version: %d, %v", v, err)
	}
	if f.mode != pedanticMath {
		t.Errorf("math mode %d, want %d", f.mode, pedanticMath)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][3]int{{1, 1, 1}, {2, 3, 4}, {5, 1, 7}, {3, 4, 0}} {
		for variant := range 16 {
			p := Product{M: size[0], N: size[1], K: size[2], Batch: 1, Float64: variant&1 != 0,
				TransposeA: variant&2 != 0, TransposeB: variant&4 != 0}
			rowsA, rowsB := p.M, p.K
			p.RowA, p.RowB, p.RowC = p.K+1, p.N+2, p.N+3
			if p.TransposeA {
				rowsA, p.RowA = p.K, p.M+1
			}
			if p.TransposeB {
				rowsB, p.RowB = p.N, p.K+2
			}
			if variant&8 != 0 {
				p.Batch = 3
			}
			p.BatchA, p.BatchB, p.BatchC = rowsA*p.RowA+1, rowsB*p.RowB+2, p.M*p.RowC+3
			if p.Float64 {
				multiply[float64](t, h, rng, p)
			} else {
				multiply[float32](t, h, rng, p)
			}
		}
	}
}

// multiply compares p with three loops. All values are small integers, so results are exact.
func multiply[T float32 | float64](t *testing.T, h *Handle, rng *rand.Rand, p Product) {
	fill := func(n int) []T {
		x := make([]T, n+1)
		for i := range x {
			x[i] = T(rng.IntN(7) - 3)
		}
		return x
	}
	a, b, c := fill(p.Batch*p.BatchA), fill(p.Batch*p.BatchB), fill(p.Batch*p.BatchC)
	want := append([]T(nil), c...)
	for q := range p.Batch {
		for i := range p.M {
			for j := range p.N {
				sum := T(0)
				for k := range p.K {
					at, bt := i*p.RowA+k, k*p.RowB+j
					if p.TransposeA {
						at = k*p.RowA + i
					}
					if p.TransposeB {
						bt = j*p.RowB + k
					}
					sum += a[q*p.BatchA+at] * b[q*p.BatchB+bt]
				}
				want[q*p.BatchC+i*p.RowC+j] = sum
			}
		}
	}
	at := func(x []T) driver.DevicePtr { return driver.DevicePtr(unsafe.Pointer(&x[0])) }
	p.A, p.B, p.C = at(a), at(b), at(c)
	if err := h.Multiply(p); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(c) != fmt.Sprint(want) {
		t.Fatalf("%+v:\n%v, want\n%v", p, c, want)
	}
}

// Setting the stream takes the workspace away, so that comes second.
func TestUse(t *testing.T) {
	leak.Check(t)
	f := newFake(t)
	h := f.handle(t)
	f.calls = nil
	if err := h.Use(0x7, 0x2000, 1<<20); err != nil {
		t.Fatal(err)
	}
	if want := []string{"cublasSetStream", "cublasSetWorkspace"}; !slices.Equal(f.calls, want) {
		t.Errorf("calls %v, want %v", f.calls, want)
	}
	f.fail["cublasSetWorkspace"] = 3
	if err := h.Use(0x7, 0x2000, 1<<20); err == nil {
		t.Error("Use returned no error")
	}
}

func TestErrors(t *testing.T) {
	leak.Check(t)
	f := newFake(t)
	f.lacks = "cublasSetWorkspace_v2"
	if _, err := bind(f.lookup); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), f.lacks) {
		t.Errorf("without a symbol: %v", err)
	}
	f.lacks = ""
	lib, err := bind(f.lookup)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cublasCreate", "cublasSetStream", "cublasSetWorkspace", "cublasSetMathMode"} {
		f.fail[name] = 3
		_, err := lib.New(1, 0x1000, 64)
		var failed *Error
		if !errors.As(err, &failed) || failed.Call != name || failed.Code != 3 {
			t.Errorf("%s fails: %v", name, err)
		}
		delete(f.fail, name)
	}
	if _, err := lib.New(1, 0, 64); err == nil {
		t.Error("New takes 64 bytes at address 0")
	}
	h := f.handle(t)
	f.fail["cublasGetVersion"] = 1
	if _, err := h.Version(); err == nil {
		t.Error("Version returns no error")
	}
	for _, name := range []string{"cublasSgemm", "cublasDgemm", "cublasSgemmStridedBatched", "cublasDgemmStridedBatched"} {
		f.fail[name] = 13
		p := Product{M: 1, N: 1, K: 1, Batch: 1, Float64: strings.Contains(name, "Dgemm")}
		if strings.HasSuffix(name, "Batched") {
			p.Batch = 2
		}
		if err := h.Multiply(p); err == nil || err.Error() != name+": execution failed (13)" {
			t.Errorf("%s fails: %v", name, err)
		}
	}
	if err := h.Multiply(Product{M: 1, N: 1, K: 1 << 40}); err == nil || !strings.Contains(err.Error(), "K is 1099511627776") {
		t.Errorf("K of 2^40: %v", err)
	}
	if err := h.Multiply(Product{M: 0, N: 1, K: 1}); err != nil {
		t.Errorf("an empty product: %v", err)
	}
	f.fail["cublasDestroy"] = 14
	if err := h.Close(); err == nil {
		t.Error("Close returns no error")
	}
	f.live--
	if err := h.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := h.Multiply(Product{M: 1, N: 1, K: 1}); err == nil {
		t.Error("Multiply on a closed handle returns no error")
	}
}

// Where there is no library, Load says what was tried.
func TestLoad(t *testing.T) {
	leak.Check(t)
	lib, err := Load()
	if err == nil {
		if lib == nil {
			t.Error("neither a library nor an error")
		}
		return
	}
	if os.Getenv("REQUIRE_GPU") != "" {
		t.Fatal(err)
	}
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "libcublas.so.13") || !strings.Contains(err.Error(), "libcublas.so.12") {
		t.Errorf("Load: %v", err)
	}
}
