package cuda

// This file has modules, functions and launches.

import (
	"bytes"
	"errors"
	"slices"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

const (
	jitErrorLog     = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogSize = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
)

// jit is what the compiler of PTX is given. The addresses in it are of itself, so it must be on the heap.
type jit struct {
	options [2]int32
	values  [2]uintptr
	log     [8 << 10]byte
}

func newJIT() *jit {
	j := &jit{options: [2]int32{jitErrorLog, jitErrorLogSize}}
	j.values = [2]uintptr{uintptr(unsafe.Pointer(&j.log)), uintptr(len(j.log))}
	return j
}

// explain adds what the compiler said to the error of loading.
func (j *jit) explain(err error) {
	var failed *driver.Error
	said, _, _ := bytes.Cut(j.log[:], []byte{0})
	if said = bytes.TrimSpace(said); len(said) > 0 && errors.As(err, &failed) {
		failed.Text += ": " + string(said)
	}
}

func (d *Device) LoadModule(img driver.Image) (driver.Module, error) {
	call := &d.lib.moduleLoadDataEx
	f, err := d.begin(call)
	if err != nil {
		return 0, err
	}
	if len(img.CUDA) == 0 {
		return 0, d.end(f, f.refuse(call, driver.CodeNotSupported, "img.CUDA is empty: there are no kernels that a CUDA device can run"))
	}
	text := append(slices.Clip(img.CUDA), 0) // a copy: PTX is a C string
	j := newJIT()
	err = f.callEscaping(call, f.out(0), uintptr(unsafe.Pointer(&text[0])), uintptr(len(j.options)),
		uintptr(unsafe.Pointer(&j.options)), uintptr(unsafe.Pointer(&j.values)))
	if err != nil {
		j.explain(err)
	}
	m, err := d.endWith(f, err)
	return driver.Module(m), err
}

func (d *Device) UnloadModule(m driver.Module) error {
	call := &d.lib.moduleUnload
	f, err := d.begin(call)
	if err != nil {
		return err
	}
	if m == 0 {
		return d.end(f, f.refuse(call, driver.CodeInvalidHandle, "no module 0x0"))
	}
	return d.end(f, f.call(call, uintptr(m)))
}

func (d *Device) Function(m driver.Module, name string) (driver.Function, error) {
	call := &d.lib.moduleGetFunction
	f, err := d.begin(call)
	if err != nil {
		return 0, err
	}
	if m == 0 {
		return 0, d.end(f, f.refuse(call, driver.CodeInvalidHandle, "no module 0x0"))
	}
	text := append([]byte(name), 0)
	err = f.callEscaping(call, f.out(0), uintptr(m), uintptr(unsafe.Pointer(&text[0])))
	var failed *driver.Error
	if errors.As(err, &failed) && failed.Code == driver.CodeNotFound {
		failed.Text += ": kernel " + name
	}
	fn, err := d.endWith(f, err)
	return driver.Function(fn), err
}

// Launch sets the context, though it takes a stream: that a function's context is found by its handle is not
// documented, and work that has to be quick is in graphs.
func (d *Device) Launch(fn driver.Function, grid, block driver.Dim3, shared uint32, s driver.Stream, args []uint64) error {
	call := &d.lib.launchKernel
	f, err := d.begin(call)
	if err != nil {
		return err
	}
	if fn == 0 {
		return d.end(f, f.refuse(call, driver.CodeInvalidHandle, "no function 0x0"))
	}
	if err := f.checkStream(call, s); err != nil {
		return d.end(f, err)
	}
	grid, block = grid.Filled(), block.Filled()
	return d.end(f, f.call(call, uintptr(fn),
		uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z), uintptr(block.X), uintptr(block.Y), uintptr(block.Z),
		uintptr(shared), uintptr(s), f.params.set(args), 0))
}

// params are the arguments of a launch, and their addresses, which is what the library takes. Both are on the
// heap and stay there, so that a launch allocates nothing.
type params struct {
	values []uint64
	at     []uintptr
}

// usualParams is how many arguments there is always room for: a kernel that was given too few then
// reads others' values, not addresses that are none.
const usualParams = 32

// set returns the address of the addresses of args.
func (p *params) set(args []uint64) uintptr {
	if n := max(len(args), usualParams); n > len(p.values) {
		p.values, p.at = make([]uint64, n), make([]uintptr, n)
		for i := range p.values {
			p.at[i] = uintptr(unsafe.Pointer(&p.values[i]))
		}
	}
	copy(p.values, args)
	return uintptr(unsafe.Pointer(&p.at[0]))
}
