package cuda

// This file has copies from other devices.

import (
	"errors"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

const (
	peerAlreadyEnabled = 704 // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	accessReadWrite    = 3   // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
)

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	locationType, location int32
	flags                  int32
}

// Peer returns the context.
func (d *Device) Peer() driver.Peer { return driver.Peer(d.ctx) }

// Share opens the context's memory to another context, and the pool, which has access rights of its own, to its
// device. Both are the driver's to undo, when a context or the pool ends.
func (d *Device) Share(with driver.Peer) (bool, error) {
	call := &d.lib.deviceCanAccessPeer
	f, err := d.enter(call)
	if err != nil {
		return false, err
	}
	direct, err := d.share(f, uintptr(with))
	return direct && err == nil, d.end(f, err)
}

func (d *Device) share(f *frame, with uintptr) (bool, error) {
	if with == 0 {
		return false, f.refuse(&d.lib.deviceCanAccessPeer, driver.CodeInvalidContext, "no device 0x0")
	}
	if with == d.ctx {
		return true, nil
	}
	var dev uintptr
	err := f.within(with, func() error {
		err := f.call(&d.lib.ctxGetDevice, f.out(0))
		dev = uintptr(int32(f.outs[0]))
		return err
	})
	if err != nil {
		return false, err
	}
	if err := f.call(&d.lib.deviceCanAccessPeer, f.out(0), dev, d.dev); err != nil {
		return false, err
	}
	if int32(f.outs[0]) == 0 || d.pool != 0 && d.lib.memPoolSetAccess.addr == 0 {
		return false, nil
	}
	err = f.within(with, func() error {
		switch code := f.code(&d.lib.ctxEnablePeerAccess, d.ctx, 0); code {
		case success, peerAlreadyEnabled:
			return nil
		default:
			return f.failure(&d.lib.ctxEnablePeerAccess, code)
		}
	})
	if err != nil || d.pool == 0 {
		return true, err
	}
	desc := &accessDesc{locationDevice, int32(dev), accessReadWrite}
	return true, f.callEscaping(&d.lib.memPoolSetAccess, d.pool, uintptr(unsafe.Pointer(desc)), 1)
}

func (d *Device) CopyPeer(dst, src driver.DevicePtr, from driver.Peer, n int64, s driver.Stream, done driver.Event) error {
	call := &d.lib.memcpyPeerAsync
	f, err := d.beginOn(call)
	if err != nil {
		return err
	}
	switch {
	case n < 0:
		return d.end(f, f.refuse(call, driver.CodeInvalidValue, "n is %d, must not be negative", n))
	case from == 0: // which the library might take for what is current
		return d.end(f, f.refuse(call, driver.CodeInvalidContext, "no device 0x0"))
	}
	if err := f.checkStream(call, s); err != nil {
		return d.end(f, err)
	}
	if n > 0 {
		if err := f.call(call, uintptr(dst), d.ctx, uintptr(src), uintptr(from), uintptr(n), uintptr(s)); err != nil {
			return d.end(f, err)
		}
	}
	return d.end(f, f.recordAfter(n, s, done))
}

// recordAfter records done, if there is one, behind n bytes that were issued to s. If that fails it waits for the
// work: the caller, who gets an error, has nothing to wait for.
func (f *frame) recordAfter(n int64, s driver.Stream, done driver.Event) error {
	if done == 0 {
		return nil
	}
	err := f.call(&f.lib.eventRecord, uintptr(done), uintptr(s))
	if err != nil && n > 0 {
		err = errors.Join(err, f.call(&f.lib.streamSynchronize, uintptr(s)))
	}
	return err
}
