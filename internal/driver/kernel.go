package driver

// This file has what devices compute: kernels, the images they come in, and how one is launched.

import (
	"fmt"
	"unsafe"
)

// Module is an image that a device has loaded (a CUmodule). Zero is no module.
type Module uintptr

// Function is a kernel of a Module (a CUfunction). It ends with its module. Zero is no function.
type Function uintptr

// Image is code, with a form for each kind of device: the same names, and the same arguments, in all of
// them. A device that finds no form which it can run returns [ErrNotSupported].
type Image struct {
	CUDA []byte            // PTX text, a cubin, or a fatbin
	Go   map[string]Kernel // what a software device runs
}

// Kernel is a kernel in Go. It is called once for a launch, for the whole grid, in the stream's order, from
// any goroutine, and must not call the device. An error it returns, or a panic, is a launch failure, as
// sticky as on a GPU. args is its own until it returns.
type Kernel func(m Memory, grid, block Dim3, args []uint64) error

// Memory is a device's memory as a [Kernel] reaches it.
type Memory interface {
	// Bytes returns the n bytes at p, for as long as the kernel runs. Where no allocation has them the
	// kernel ends there: Bytes panics, and the launch fails with [CodeIllegalAddress].
	Bytes(p DevicePtr, n int64) []byte
}

// Values is m.Bytes for n values of type T, which must hold no pointers. A p that is not aligned to T ends the
// kernel too, with [CodeMisalignedAddress].
func Values[T any](m Memory, p DevicePtr, n int) []T {
	var zero T
	b := m.Bytes(p, int64(n)*int64(unsafe.Sizeof(zero)))
	if len(b) == 0 {
		return nil
	}
	first := unsafe.Pointer(unsafe.SliceData(b))
	if align := unsafe.Alignof(zero); uintptr(first)%align != 0 {
		panic(&Error{
			Call: "Values", Code: CodeMisalignedAddress, Name: "CUDA_ERROR_MISALIGNED_ADDRESS",
			Text: fmt.Sprintf("%T at %#x, must be at a multiple of %d", zero, p, align),
		})
	}
	return unsafe.Slice((*T)(first), n)
}

// Dim3 is a size in up to three dimensions. A Y or Z of 0 counts as 1.
type Dim3 struct{ X, Y, Z uint32 }

// Filled returns d with 1 for a Y or Z of 0.
func (d Dim3) Filled() Dim3 { return Dim3{d.X, max(d.Y, 1), max(d.Z, 1)} }

// Size returns the number of places that d has.
func (d Dim3) Size() int64 {
	d = d.Filled()
	return int64(d.X) * int64(d.Y) * int64(d.Z)
}

// Launcher runs kernels. All devices do.
type Launcher interface {
	// LoadModule loads img. PTX is compiled for the device, which takes up to seconds; what the compiler
	// has to say of bad code is in the error's Text. img may be reused afterwards.
	LoadModule(img Image) (Module, error)

	// UnloadModule releases m and its functions. Work that uses them must have completed.
	UnloadModule(m Module) error

	// Function returns the kernel of m with the given name, or an error with [CodeNotFound]. It need not
	// be released.
	Function(m Module, name string) (Function, error)

	// Launch issues f on s, with grid blocks of block threads and shared bytes of dynamic shared memory
	// for each block. args holds a value for each parameter of f, in order: integers and addresses as they
	// are, floats as their bits, smaller ones in the low bytes. The last parameter may be a struct, of which
	// args then holds the words; other parameters of more than 8 bytes can't be given. A GPU reads as many
	// arguments as f has parameters, which nothing checks: fewer is a mistake it can't find. args may be
	// reused when Launch has returned.
	Launch(f Function, grid, block Dim3, shared uint32, s Stream, args []uint64) error
}
