package emulate

// This file has the device, but for its streams and graphs. Memory is the host's, between guards that show what writes
// beyond it.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// Open returns a driver with one device that runs the kernels of this module's PTX. What was not released when the
// test ends fails it, and so does memory whose guards were written to.
func Open(t testing.TB) driver.Driver {
	d := &device{
		t: t, lib: Load(t), memory: map[driver.DevicePtr][]byte{}, streams: map[driver.Stream]*stream{}, events: map[driver.Event]*mark{},
		graphs: map[driver.Graph]*capture{}, rng: rand.New(rand.NewPCG(1, 1)), live: map[uintptr]string{}, next: 1 << 20,
	}
	t.Cleanup(func() {
		for _, kind := range d.live {
			t.Errorf("a %s is left on the emulated device", kind)
		}
	})
	return d
}

const guard = 256 // bytes before and after each allocation

type device struct {
	t   testing.TB
	lib *Library

	mu      sync.Mutex
	memory  map[driver.DevicePtr][]byte // with guards
	streams map[driver.Stream]*stream
	events  map[driver.Event]*mark
	graphs  map[driver.Graph]*capture // what was
	rng     *rand.Rand                // of the order in which graphs run
	live    map[uintptr]string        // kinds by handle
	names   []string                  // kernels by function - 1
	next    uintptr
	failed  error // the first of the work that failed

	running sync.Mutex // held while work runs
}

func (d *device) Host() driver.Host                       { return soft.Host() }
func (d *device) Devices() (int, error)                   { return 1, nil }
func (d *device) Open(ordinal int) (driver.Device, error) { return d, nil }
func (d *device) Name() string                            { return "emulated GPU" }
func (d *device) Close() error                            { return d.finish() }
func (d *device) Within(call func() error) error          { return call() }
func (d *device) MemInfo() (free, total int64, err error) { return 1 << 30, 1 << 30, nil }
func (d *device) TrimPool(int64) error                    { return nil }

func failure(call string, code int, format string, args ...any) error {
	return &driver.Error{Call: call, Code: code, Name: "CUDA_ERROR", Text: fmt.Sprintf(format, args...)}
}

// create makes a handle.
func (d *device) create(kind string) uintptr {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	d.live[d.next] = kind
	return d.next
}

func (d *device) destroy(call, kind string, handle uintptr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live[handle] != kind {
		return failure(call, driver.CodeInvalidHandle, "no %s %#x", kind, handle)
	}
	delete(d.live, handle)
	return nil
}

func (d *device) Alloc(n int64) (driver.DevicePtr, error) {
	if n <= 0 {
		return 0, failure("Alloc", driver.CodeInvalidValue, "n is %d", n)
	}
	b := bytes.Repeat([]byte{0xCC}, int(n)+2*guard)
	p := driver.DevicePtr(unsafe.Pointer(&b[guard]))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory[p] = b
	d.live[uintptr(p)] = "block of memory"
	return p, nil
}

func (d *device) Free(p driver.DevicePtr) error {
	if err := d.finish(); err != nil {
		return err
	}
	return d.free(p)
}

func (d *device) free(p driver.DevicePtr) error {
	if err := d.destroy("Free", "block of memory", uintptr(p)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.memory[p]
	delete(d.memory, p)
	for _, edge := range [][]byte{b[:guard], b[len(b)-guard:]} {
		if bytes.Count(edge, []byte{0xCC}) != guard {
			d.t.Errorf("something wrote outside of a block of %d bytes", len(b)-2*guard)
		}
	}
	return nil
}

func (d *device) AllocAsync(n int64, _ driver.Stream) (driver.DevicePtr, error) { return d.Alloc(n) }

// pinned reports whether the program takes memory for page-locked.
func pinned(b []byte) bool {
	return pintensor.Default().Owns(tensor.New(tensor.WithShape(len(b)), tensor.WithBacking(b)))
}

func host(p unsafe.Pointer, n int64) []byte { return unsafe.Slice((*byte)(p), n) }

// bytes returns device memory.
func (d *device) bytes(call string, p driver.DevicePtr, n int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, b := range d.memory {
		if p >= at && int64(p-at)+n <= int64(len(b)-2*guard) {
			return b[guard+int(p-at):][:n], nil
		}
	}
	return nil, failure(call, driver.CodeIllegalAddress, "no %d bytes at %#x", n, p)
}

func (d *device) CopyHtoD(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream, done driver.Event) error {
	from := host(src, n)
	if n > 0 && !pinned(from) { // the driver has taken it when the call returns
		from = slices.Clone(from)
	}
	return d.move(s, n, done, func() error {
		to, err := d.bytes("CopyHtoD", dst, n)
		copy(to, from)
		return err
	})
}

func (d *device) CopyDtoH(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	return d.move(s, n, done, func() error {
		from, err := d.bytes("CopyDtoH", src, n)
		copy(host(dst, n), from)
		return err
	})
}

func (d *device) CopyDtoD(dst, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	return d.move(s, n, done, func() error {
		from, err := d.bytes("CopyDtoD", src, n)
		if err != nil {
			return err
		}
		to, err := d.bytes("CopyDtoD", dst, n)
		copy(to, from)
		return err
	})
}

func (d *device) Memset(dst driver.DevicePtr, value byte, n int64, s driver.Stream, done driver.Event) error {
	return d.move(s, n, done, func() error {
		to, err := d.bytes("Memset", dst, n)
		for i := range to {
			to[i] = value
		}
		return err
	})
}

// move issues a copy or a fill of n bytes, and then records done.
func (d *device) move(s driver.Stream, n int64, done driver.Event, work func() error) error {
	if n > 0 {
		if err := d.issue(s, work); err != nil {
			return err
		}
	}
	if done == 0 {
		return nil
	}
	return d.Record(done, s)
}

func (d *device) Peer() driver.Peer               { return 1 }
func (d *device) Share(driver.Peer) (bool, error) { return true, nil }
func (d *device) CopyPeer(dst, src driver.DevicePtr, _ driver.Peer, n int64, s driver.Stream, done driver.Event) error {
	return d.CopyDtoD(dst, src, n, s, done)
}

func (d *device) LoadModule(img driver.Image) (driver.Module, error) {
	if !bytes.Contains(img.CUDA, []byte(".visible .entry")) {
		return 0, failure("LoadModule", driver.CodeNotSupported, "the image has no PTX")
	}
	return driver.Module(d.create("module")), nil
}

func (d *device) UnloadModule(m driver.Module) error {
	return d.destroy("UnloadModule", "module", uintptr(m))
}

func (d *device) Function(_ driver.Module, name string) (driver.Function, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.lib.names, name) {
		return 0, failure("Function", driver.CodeNotFound, "no kernel %q", name)
	}
	d.names = append(d.names, name)
	return driver.Function(len(d.names)), nil
}

func (d *device) Launch(f driver.Function, grid, block driver.Dim3, _ uint32, s driver.Stream, args []uint64) error {
	d.mu.Lock()
	if f == 0 || int(f) > len(d.names) {
		d.mu.Unlock()
		return failure("Launch", driver.CodeInvalidHandle, "no function %d", f)
	}
	name := d.names[f-1]
	d.mu.Unlock()
	grid, block = grid.Filled(), block.Filled()
	if grid.Size() <= 0 || block.X == 0 || block.X > 1024 || block.Y != 1 || block.Z != 1 || grid.Y > 65535 || grid.Z > 65535 {
		return failure("Launch", driver.CodeInvalidValue, "%s: grid %v, block %v", name, grid, block)
	}
	args = slices.Clone(args)
	return d.issue(s, func() error {
		return d.lib.Run(name, [3]uint32{grid.X, grid.Y, grid.Z}, block.X, args)
	})
}
