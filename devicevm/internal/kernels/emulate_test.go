package kernels

// The kernels compiled for the host.

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/internal/leak"
)

// emulated runs a kernel on the host.
func emulated(t testing.TB, name string, grid [3]uint32, args []argument) {
	t.Helper()
	var pin runtime.Pinner
	defer pin.Unpin()
	values := make([]uint64, len(args))
	for i, a := range args {
		values[i] = a.bits
		if a.words != nil {
			values = append(values[:i], a.words(func(*uint64) {})...)
		}
		if a.data != nil {
			pin.Pin(a.data)
			values[i] = uint64(uintptr(a.data))
		}
	}
	check(t, emulate.Load(t).Run(name, grid, Threads, values))
}

func TestStructsAreTheSameInC(t *testing.T) {
	leak.Check(t)
	l := emulate.Load(t)
	for name, size := range map[string]uintptr{
		"Operand": unsafe.Sizeof(Operand{}), "Expression": unsafe.Sizeof(Expression{}), "Stage": unsafe.Sizeof(Stage{}), "Sequence": unsafe.Sizeof(Sequence{}), "Product": unsafe.Sizeof(Product{}), "View": unsafe.Sizeof(View{}), "Window": unsafe.Sizeof(Window{}), "PoolDiff": unsafe.Sizeof(PoolDiff{}),
		"Settings": unsafe.Sizeof(Settings{}), "Parameters": unsafe.Sizeof(Parameters{}), "Run": unsafe.Sizeof(Run{}),
	} {
		if got := l.Size(name); got != int(size) {
			t.Errorf("%s: %d bytes in C++, %d in Go", name, got, size)
		}
	}
}
