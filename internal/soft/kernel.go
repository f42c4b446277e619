package soft

// This file has kernels: modules of Go functions, and how a launch runs one.

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/pintensor/pin/internal/driver"
)

// module is an image's functions. Each of them that was asked for has a handle.
type module struct {
	kernels map[string]driver.Kernel
	handles map[string]driver.Function
	gone    bool // unloaded; guarded by the core's lock
}

// function is a kernel that can be launched.
type function struct {
	name   string
	kernel driver.Kernel
	module *module
}

// launch is what an opLaunch runs.
type launch struct {
	function    *function
	grid, block driver.Dim3
	args        []uint64
}

func (d *device) LoadModule(img driver.Image) (driver.Module, error) {
	if err := d.begin("LoadModule"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if img.Go == nil {
		return 0, failure("LoadModule", driver.CodeNotSupported, "img.Go is nil: there are no kernels that a software device can run")
	}
	for name, kernel := range img.Go {
		if kernel == nil {
			return 0, failure("LoadModule", driver.CodeInvalidValue, "img.Go: the kernel %q is nil", name)
		}
	}
	d.lastID++
	id := driver.Module(d.lastID)
	d.modules[id] = &module{kernels: maps.Clone(img.Go), handles: make(map[string]driver.Function)}
	return id, nil
}

func (d *device) UnloadModule(m driver.Module) error {
	if err := d.beginRelease("UnloadModule"); err != nil {
		return err
	}
	mod := d.modules[m]
	if mod == nil {
		return d.endRelease(badHandle("UnloadModule", "module", uintptr(m)))
	}
	mod.gone = true
	delete(d.modules, m)
	for _, f := range mod.handles {
		delete(d.functions, f)
	}
	return d.endRelease(nil)
}

func (d *device) Function(m driver.Module, name string) (driver.Function, error) {
	if err := d.begin("Function"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	mod := d.modules[m]
	if mod == nil {
		return 0, badHandle("Function", "module", uintptr(m))
	}
	if f, ok := mod.handles[name]; ok {
		return f, nil
	}
	kernel, ok := mod.kernels[name]
	if !ok {
		return 0, failure("Function", driver.CodeNotFound, "no kernel %q, there are %q", name, slices.Sorted(maps.Keys(mod.kernels)))
	}
	d.lastID++
	f := driver.Function(d.lastID)
	mod.handles[name] = f
	d.functions[f] = &function{name: name, kernel: kernel, module: mod}
	return f, nil
}

// maxThreads is the size of a block at most, as on every GPU.
const maxThreads = 1024

// Launch ignores shared: a Go kernel allocates what it needs.
func (d *device) Launch(f driver.Function, grid, block driver.Dim3, shared uint32, s driver.Stream, args []uint64) error {
	grid, block = grid.Filled(), block.Filled()
	if grid.X == 0 {
		return failure("Launch", driver.CodeInvalidValue, "grid is %v, must have at least one block", grid)
	}
	if n := block.Size(); n == 0 || n > maxThreads {
		return failure("Launch", driver.CodeInvalidValue, "block is %v, which has %d threads, must have 1 to %d", block, n, maxThreads)
	}
	if err := d.begin("Launch"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	fn, st := d.functions[f], d.streams[s]
	if fn == nil {
		return badHandle("Launch", "function", uintptr(f))
	}
	if st == nil {
		return badHandle("Launch", "stream", uintptr(s))
	}
	d.issue(st, operation{kind: opLaunch, launch: &launch{fn, grid, block, slices.Clone(args)}})
	return nil
}

// compute runs a launch. It turns a panic into the failure of the launch: on a GPU nothing else of the
// process would end either.
func (c *core) compute(l *launch) (failed *driver.Error) {
	f := l.function
	c.mu.Lock()
	gone := f.module.gone
	c.mu.Unlock()
	if gone {
		return failure("Launch", driver.CodeLaunchFailure, "the module of kernel %s was unloaded before the kernel had run", f.name)
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *driver.Error: // of memory.Bytes or Values
			e := *r
			e.Call, e.Text = "soft.Launch", fmt.Sprintf("kernel %s: %s", f.name, e.Text)
			failed = &e
		default:
			failed = failure("Launch", driver.CodeLaunchFailure, "kernel %s: panic: %v\n%s", f.name, r, debug.Stack())
		}
	}()
	// A graph launches the same arguments again, so the kernel gets a copy to do with as it likes.
	if err := f.kernel(reach{c}, l.grid, l.block, slices.Clone(l.args)); err != nil {
		return asLaunchFailure(f.name, err)
	}
	return nil
}

func asLaunchFailure(name string, err error) *driver.Error {
	var own *driver.Error
	if errors.As(err, &own) && own.Sticky() {
		return own
	}
	return failure("Launch", driver.CodeLaunchFailure, "kernel %s: %v", name, err)
}

// reach is the device's memory for a kernel.
type reach struct{ *core }

func (r reach) Bytes(p driver.DevicePtr, n int64) []byte {
	if n == 0 {
		return nil
	}
	b := r.bytes(uintptr(p), n)
	if b == nil {
		panic(failure("Launch", driver.CodeIllegalAddress, "no memory of %d bytes at %#x", n, p))
	}
	return b
}
