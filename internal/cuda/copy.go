package cuda

// This file has copies and fills.

import (
	"runtime"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

func (d *Device) CopyHtoD(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream, done driver.Event) error {
	err := d.issue(&d.lib.memcpyHtoDAsync, uintptr(dst), uintptr(src), n, s, done)
	runtime.KeepAlive(src)
	return err
}

func (d *Device) CopyDtoH(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	err := d.issue(&d.lib.memcpyDtoHAsync, uintptr(dst), uintptr(src), n, s, done)
	runtime.KeepAlive(dst)
	return err
}

func (d *Device) CopyDtoD(dst, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	return d.issue(&d.lib.memcpyDtoDAsync, uintptr(dst), uintptr(src), n, s, done)
}

func (d *Device) Memset(dst driver.DevicePtr, value byte, n int64, s driver.Stream, done driver.Event) error {
	return d.issue(&d.lib.memsetD8Async, uintptr(dst), uintptr(value), n, s, done)
}

// issue makes one of the four calls above, which have their arguments in the same order, and records done.
func (d *Device) issue(call *symbol, dst, src uintptr, n int64, s driver.Stream, done driver.Event) error {
	f, err := d.beginOn(call)
	if err != nil {
		return err
	}
	if n < 0 {
		return d.end(f, f.refuse(call, driver.CodeInvalidValue, "n is %d, must not be negative", n))
	}
	if err := f.checkStream(call, s); err != nil {
		return d.end(f, err)
	}
	if n > 0 { // the library refuses address 0 even then
		if err := f.call(call, dst, src, uintptr(n), uintptr(s)); err != nil {
			return d.end(f, err)
		}
	}
	return d.end(f, f.recordAfter(n, s, done))
}
