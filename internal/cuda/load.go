package cuda

// This file finds the driver and its devices.

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pintensor/pin/internal/driver"
)

// Load returns the driver, which is one for the process. The first call loads and initialises the
// library, which takes up to a second and creates no context; later ones return what the first did.
func Load() (driver.Driver, error) {
	d, err := loadOnce()
	if err != nil {
		return nil, err
	}
	return d, nil
}

var loadOnce = sync.OnceValues(func() (*Driver, error) {
	lookup, err := openLibrary()
	if err != nil {
		return nil, unavailable(err)
	}
	return load(lookup)
})

func unavailable(err error) error { return fmt.Errorf("cuda: %w: %w", driver.ErrUnavailable, err) }

// load makes a driver of a library's symbols.
func load(lookup func(name string) (uintptr, error)) (*Driver, error) {
	lib, err := bind(lookup)
	if err != nil {
		return nil, unavailable(fmt.Errorf("the library was found, but %w", err))
	}
	f := newFrame(lib)
	defer f.free()
	if err := f.call(&lib.init, 0); err != nil {
		return nil, unavailable(fmt.Errorf("%w, from %s", err, lib.version()))
	}
	// Tried with the driver for CUDA 13.0: without a context, and with another one current, every call
	// that takes a stream or an event runs in the stream's. Older ones are documented to need the context.
	if v, err := lib.release(); err == nil && v >= 13000 {
		lib.contextByHandle = true
	}
	d := &Driver{lib: lib}
	d.host.driver = d
	return d, nil
}

// Driver is a driver.Driver of the devices that CUDA shows to the process.
type Driver struct {
	lib  *library
	host host

	// used is the CUdevice of the Device opened or adopted last, and device 0 before.
	used atomic.Int32
}

// Host returns the host that registers memory with CUDA.
func (d *Driver) Host() driver.Host { return &d.host }

// Devices returns how many devices CUDA_VISIBLE_DEVICES leaves.
func (d *Driver) Devices() (int, error) {
	f := newFrame(d.lib)
	defer f.free()
	if err := f.call(&d.lib.deviceGetCount, f.out(0)); err != nil {
		return 0, err
	}
	return int(int32(f.outs[0])), nil
}

// Open retains the primary context of a device. The first Open of a device creates the context, which
// takes 0.1 s and more.
func (d *Driver) Open(ordinal int) (driver.Device, error) {
	n, err := d.Devices()
	if err != nil {
		return nil, err
	}
	f := newFrame(d.lib)
	defer f.free()
	if ordinal < 0 || ordinal >= n {
		return nil, f.refuse(&d.lib.deviceGet, driver.CodeInvalidDevice, "no device %d, there are %d", ordinal, n)
	}
	if err := f.call(&d.lib.deviceGet, f.out(0), uintptr(ordinal)); err != nil {
		return nil, err
	}
	dev := uintptr(int32(f.outs[0]))
	if err := f.call(&d.lib.primaryCtxRetain, f.out(0), dev); err != nil {
		return nil, err
	}
	device, err := d.newDevice(f, dev, f.outs[0], true)
	if err != nil {
		return nil, err // not a nil *Device
	}
	return device, nil
}

// Adopt returns a Device whose context other code made, such as gorgonia.org/cu. Close does not
// destroy the context, which must outlive the Device.
func Adopt(ctx uintptr) (*Device, error) {
	d, err := loadOnce()
	if err != nil {
		return nil, err
	}
	return d.adopt(ctx)
}

func (d *Driver) adopt(ctx uintptr) (*Device, error) {
	f := newFrame(d.lib)
	defer f.free()
	if ctx == 0 {
		return nil, f.refuse(&d.lib.ctxPushCurrent, driver.CodeInvalidContext, "ctx is 0, must be a CUcontext")
	}
	var dev uintptr
	err := f.within(ctx, func() error {
		err := f.call(&d.lib.ctxGetDevice, f.out(0))
		dev = uintptr(int32(f.outs[0]))
		return err
	})
	if err != nil {
		return nil, err
	}
	return d.newDevice(f, dev, ctx, false)
}
