package cuda

// This file has devices: their life, and their memory.

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

const (
	attributeMemoryPools = 115 // CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
	poolReleaseThreshold = 4   // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
	poolDependencies     = 3   // CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
	allocationPinned     = 1   // CU_MEM_ALLOCATION_TYPE_PINNED: ordinary device memory
	locationDevice       = 1   // CU_MEM_LOCATION_TYPE_DEVICE
)

// poolProps is CUmemPoolProps.
type poolProps struct {
	allocType, handleTypes int32
	locationType, location int32
	security               uintptr
	maxSize                uintptr // 0: as much as there is
	usage                  uint16
	_                      [54]byte
}

// Device is a driver.Device in a CUDA context.
type Device struct {
	lib      *library
	name     string
	dev      uintptr // CUdevice
	ctx      uintptr
	retained bool
	pool     uintptr // CUmemoryPool; 0 without stream-ordered allocation

	state    atomic.Int64 // calls in flight, and closing
	idleOnce sync.Once
	idle     chan struct{} // closed when Close was called and no call is left
}

// newDevice makes a device of a context. If it fails, a retained context is released.
func (d *Driver) newDevice(f *frame, dev, ctx uintptr, retained bool) (*Device, error) {
	device := &Device{lib: d.lib, dev: dev, ctx: ctx, retained: retained, idle: make(chan struct{})}
	err := device.readName(f)
	if err == nil {
		err = device.makePool(f)
	}
	if err != nil {
		return nil, errors.Join(err, device.release(f))
	}
	d.used.Store(int32(dev))
	return device, nil
}

func (d *Device) readName(f *frame) error {
	buf := make([]byte, 256)
	err := f.callEscaping(&d.lib.deviceGetName, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), d.dev)
	name, _, _ := bytes.Cut(buf, []byte{0})
	d.name = string(name)
	return err
}

// makePool creates the pool of AllocAsync, if the driver and the device can. The device's default pool
// is not used because its settings are other code's too.
func (d *Device) makePool(f *frame) error {
	if !d.lib.hasPools() {
		return nil
	}
	if err := f.call(&d.lib.deviceGetAttribute, f.out(0), attributeMemoryPools, d.dev); err != nil {
		return err
	}
	if int32(f.outs[0]) == 0 {
		return nil
	}
	props := &poolProps{allocType: allocationPinned, locationType: locationDevice, location: int32(d.dev)}
	err := f.callEscaping(&d.lib.memPoolCreate, f.out(0), uintptr(unsafe.Pointer(props)))
	if err != nil {
		return err
	}
	d.pool = f.outs[0]
	// With such dependencies a stream that allocates would wait for another's work rather than take memory that is
	// free, and what is to overlap would not.
	f.outs[0] = 0
	if err := f.call(&d.lib.memPoolSetAttribute, d.pool, poolDependencies, uintptr(unsafe.Pointer(&f.outs[0]))); err != nil {
		return err
	}
	// Without a threshold every synchronisation would give the pool's memory back, and the next
	// allocation would take as long as cuMemAlloc.
	f.outs[0] = ^uintptr(0)
	return f.call(&d.lib.memPoolSetAttribute, d.pool, poolReleaseThreshold, uintptr(unsafe.Pointer(&f.outs[0])))
}

// release gives up what a device holds, as far as it goes.
func (d *Device) release(f *frame) error {
	var pool, ctx error
	if d.pool != 0 {
		pool = f.call(&d.lib.memPoolDestroy, d.pool)
	}
	if d.retained {
		ctx = f.call(&d.lib.primaryCtxRelease, d.dev)
	}
	return errors.Join(pool, ctx)
}

// Close waits for calls in flight, then releases the context.
func (d *Device) Close() error {
	before := d.state.Or(closing)
	if before&closing != 0 {
		return nil
	}
	if before != 0 {
		<-d.idle
	}
	f := newFrame(d.lib)
	defer f.free()
	return d.release(f)
}

func (d *Device) Name() string { return d.name }

// Ordinal returns the device's number, which is what a CUdevice is.
func (d *Device) Ordinal() int { return int(d.dev) }

func (d *Device) MemInfo() (free, total int64, err error) {
	f, err := d.begin(&d.lib.memGetInfo)
	if err != nil {
		return 0, 0, err
	}
	err = f.call(&d.lib.memGetInfo, f.out(0), f.out(1))
	free, total = int64(f.outs[0]), int64(f.outs[1])
	if err = d.end(f, err); err != nil {
		return 0, 0, err
	}
	return free, total, nil
}

func (d *Device) Alloc(n int64) (driver.DevicePtr, error) {
	f, err := d.begin(&d.lib.memAlloc)
	if err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, d.end(f, f.refuse(&d.lib.memAlloc, driver.CodeInvalidValue, "n is %d, must be positive", n))
	}
	p, err := d.endWith(f, f.call(&d.lib.memAlloc, f.out(0), uintptr(n)))
	return driver.DevicePtr(p), err
}

func (d *Device) Free(p driver.DevicePtr) error {
	f, err := d.begin(&d.lib.memFree)
	if err != nil {
		return err
	}
	if p == 0 { // which the library would let pass
		return d.end(f, f.refuse(&d.lib.memFree, driver.CodeInvalidValue, "p is 0"))
	}
	return d.end(f, f.call(&d.lib.memFree, uintptr(p)))
}

func (d *Device) AllocAsync(n int64, s driver.Stream) (driver.DevicePtr, error) {
	call := &d.lib.memAllocFromPoolAsync
	f, err := d.beginOn(call)
	if err != nil {
		return 0, err
	}
	if err := d.checkPool(f, call, s); err != nil {
		return 0, d.end(f, err)
	}
	if n <= 0 {
		return 0, d.end(f, f.refuse(call, driver.CodeInvalidValue, "n is %d, must be positive", n))
	}
	p, err := d.endWith(f, f.call(call, f.out(0), uintptr(n), d.pool, uintptr(s)))
	return driver.DevicePtr(p), err
}

func (d *Device) FreeAsync(p driver.DevicePtr, s driver.Stream) error {
	call := &d.lib.memFreeAsync
	f, err := d.beginOn(call)
	if err != nil {
		return err
	}
	if err := d.checkPool(f, call, s); err != nil {
		return d.end(f, err)
	}
	if p == 0 {
		return d.end(f, f.refuse(call, driver.CodeInvalidValue, "p is 0"))
	}
	return d.end(f, f.call(call, uintptr(p), uintptr(s)))
}

func (d *Device) checkPool(f *frame, s *symbol, stream driver.Stream) error {
	if d.pool == 0 {
		return f.refuse(s, driver.CodeNotSupported,
			"stream-ordered allocation needs a driver for CUDA 11.2 and a device with memory pools")
	}
	return f.checkStream(s, stream)
}

func (d *Device) TrimPool(keep int64) error {
	call := &d.lib.memPoolTrimTo
	f, err := d.begin(call)
	if err != nil {
		return err
	}
	if keep < 0 {
		return d.end(f, f.refuse(call, driver.CodeInvalidValue, "keep is %d, must not be negative", keep))
	}
	if d.pool == 0 {
		return d.end(f, nil)
	}
	return d.end(f, f.call(call, d.pool, uintptr(keep)))
}
