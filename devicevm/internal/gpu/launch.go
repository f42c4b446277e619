package gpu

// This file has what code is made of: launches and their arguments, copies, fills, and products of cuBLAS.

import (
	"math"
	"unsafe"

	"github.com/pintensor/pin/devicevm/internal/cublas"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// argument is one of a launch: a number, or a place in the table, in scratch memory, or in the machine's.
type argument struct {
	bits uint64
	base space
}

type space uint8

const (
	absolute space = iota
	inTable
	inScratch
	inLive
	inWorkspace // of cuBLAS
)

func (c *Code) resolve(m *Machine, a argument) uint64 {
	switch a.base {
	case inLive:
		return uint64(m.live.DevicePtr()) + a.bits
	case inTable:
		return uint64(c.tableMem) + a.bits
	case inScratch:
		return uint64(c.scratchMem) + a.bits
	}
	return a.bits
}

func number(n int) argument           { return argument{bits: uint64(n)} }
func ref(p driver.DevicePtr) argument { return argument{bits: uint64(p)} }
func tableRef(off int) argument       { return argument{uint64(off), inTable} }
func liveRef(off int) argument        { return argument{uint64(off), inLive} }
func scratchRef(off int64) argument   { return argument{uint64(off), inScratch} }
func float(dt tensor.Dtype, x float64) argument {
	if dt == tensor.Float32 {
		return argument{bits: uint64(math.Float32bits(float32(x)))}
	}
	return argument{bits: math.Float64bits(x)}
}

// words are the last arguments of a launch: a struct by value.
func words[T any](x *T) []argument {
	var args []argument
	for _, w := range kernels.Words(x) {
		args = append(args, argument{bits: w})
	}
	return args
}

// put appends the bytes of a value, or of a slice's values, to the table.
func put[T any](b *builder, values ...T) argument {
	for len(b.table)%16 != 0 {
		b.table = append(b.table, 0)
	}
	off := len(b.table)
	size := int(unsafe.Sizeof(*new(T)))
	b.table = append(b.table, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), size*len(values))...)
	return tableRef(off)
}

// reserve returns scratch memory for n bytes, at an offset in the current step's. It is the step's until the step ends.
func (b *builder) reserve(off, n int64) (argument, int64) {
	off = (off + 255) &^ 255
	at := (b.base+255)&^255 + off
	b.used = max(b.used, at+n)
	b.scratch = max(b.scratch, b.used)
	b.writes(scratchRef(at), n)
	return scratchRef(at), off + n
}

// typed returns the name of the kernel for a dtype.
func typed(name string, dt tensor.Dtype) string {
	if dt == tensor.Float32 {
		return name + "_f32"
	}
	return name + "_f64"
}

// elements is a grid for n elements, of which a thread does up to four.
func elements(n int) driver.Dim3 {
	const most = 132 * 64 // several times what the largest devices have room for, so that no block has much more than others
	return blocks(min((n+4*kernels.Threads-1)/(4*kernels.Threads), most))
}

func blocks(n int) driver.Dim3 { return driver.Dim3{X: uint32(max(n, 1)), Y: 1, Z: 1} }

// launch adds the launch of a kernel for a dtype.
func (b *builder) launch(name string, dt tensor.Dtype, grid driver.Dim3, args ...argument) {
	b.launchNamed(typed(name, dt), grid, args...)
}

func (b *builder) launchNamed(name string, grid driver.Dim3, args ...argument) {
	values := make([]uint64, len(args))
	b.names[name] = 0
	for _, a := range args {
		if a.base == inLive {
			b.reads(a, whole)
		}
	}
	b.add(func(m *Machine, c *Code, s driver.Stream) error {
		for i, a := range args {
			values[i] = c.resolve(m, a)
		}
		return m.dev.Launch(c.names[name], grid, driver.Dim3{X: kernels.Threads}, 0, s, values)
	})
}

// copy adds a copy of a whole value.
func (b *builder) copy(to, from plan.Value) {
	dst, src, n := b.mem.At(to), b.mem.At(from), to.Bytes()
	if dst == src || n == 0 {
		return
	}
	b.add(func(m *Machine, _ *Code, s driver.Stream) error { return m.dev.CopyDtoD(dst, src, n, s, 0) })
}

// clear adds a fill of n bytes.
func (b *builder) clear(to argument, value byte, n int64) {
	b.add(func(m *Machine, c *Code, s driver.Stream) error {
		return m.dev.Memset(driver.DevicePtr(c.resolve(m, to)), value, n, s, 0)
	})
}

// multiply adds a product by cuBLAS.
func (b *builder) multiply(p cublas.Product) {
	k := b.products % workspaces
	b.products++
	b.writes(argument{uint64(k), inWorkspace}, whole)
	b.add(func(m *Machine, _ *Code, s driver.Stream) error {
		return m.dev.Within(func() error {
			at := driver.DevicePtr(m.workspace.DevicePtr()) + driver.DevicePtr(k*workspaceBytes)
			if err := m.blas.Use(s, at, workspaceBytes); err != nil {
				return err
			}
			return m.blas.Multiply(p)
		})
	})
}
