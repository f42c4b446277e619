package cuda

// This file registers host memory. A registration belongs to a context and ends with it, so each
// retains one.

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

const hostRegisterPortable = 1 // CU_MEMHOSTREGISTER_PORTABLE

type host struct {
	driver *Driver

	mu     sync.Mutex
	ranges map[uintptr]primary // by address
}

// primary is a retained primary context.
type primary struct{ dev, ctx uintptr }

func (h *host) Name() string { return "cuda" }

func (h *host) Register(p unsafe.Pointer, n int64) error {
	lib := h.driver.lib
	f := newFrame(lib)
	defer f.free()
	if p == nil || n <= 0 {
		return f.refuse(&lib.memHostRegister, driver.CodeInvalidValue, "p is %#x and n is %d, must not be 0 and must be positive", uintptr(p), n)
	}
	in, err := h.retain(f)
	if err != nil {
		return err
	}
	registered := false
	err = f.within(in.ctx, func() error {
		err := f.call(&lib.memHostRegister, uintptr(p), uintptr(n), hostRegisterPortable)
		registered = err == nil
		return err
	})
	runtime.KeepAlive(p)
	if !registered {
		return errors.Join(err, f.call(&lib.primaryCtxRelease, in.dev))
	}
	h.mu.Lock()
	if h.ranges == nil {
		h.ranges = make(map[uintptr]primary)
	}
	h.ranges[uintptr(p)] = in
	h.mu.Unlock()
	if err != nil { // the context could not be popped
		return errors.Join(err, h.Unregister(p))
	}
	return nil
}

func (h *host) Unregister(p unsafe.Pointer) error {
	lib := h.driver.lib
	f := newFrame(lib)
	defer f.free()
	h.mu.Lock()
	in, ok := h.ranges[uintptr(p)]
	delete(h.ranges, uintptr(p))
	h.mu.Unlock()
	if !ok {
		return f.refuse(&lib.memHostUnregister, driver.CodeNotRegistered, "nothing was registered at %#x", uintptr(p))
	}
	unregistered := false
	err := f.within(in.ctx, func() error {
		err := f.call(&lib.memHostUnregister, uintptr(p))
		unregistered = err == nil
		return err
	})
	runtime.KeepAlive(p)
	if !unregistered { // it is registered still, so that the call may be repeated
		h.mu.Lock()
		h.ranges[uintptr(p)] = in
		h.mu.Unlock()
		return err
	}
	return errors.Join(err, f.call(&lib.primaryCtxRelease, in.dev))
}

// Keep makes the host a driver.Keeper: it retains a context as a registration does.
func (h *host) Keep() (release func() error, err error) {
	f := newFrame(h.driver.lib)
	defer f.free()
	in, err := h.retain(f)
	if err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error {
		f := newFrame(h.driver.lib)
		defer f.free()
		return f.call(&h.driver.lib.primaryCtxRelease, in.dev)
	}), nil
}

// PCIBusID makes the host a driver.Located.
func (h *host) PCIBusID() (string, error) {
	lib := h.driver.lib
	f := newFrame(lib)
	defer f.free()
	if lib.deviceGetPCIBusID.addr == 0 {
		return "", driver.ErrNotSupported
	}
	dev, err := h.choose(f)
	if err != nil {
		return "", err
	}
	id := new([16]byte) // "0000:3b:00.0" and room for domains of 32 bits
	if err := f.callEscaping(&lib.deviceGetPCIBusID, uintptr(unsafe.Pointer(id)), uintptr(len(id)), dev); err != nil {
		return "", err
	}
	n := bytes.IndexByte(id[:], 0)
	if n < 0 {
		n = len(id)
	}
	return strings.ToLower(string(id[:n])), nil
}

// retain retains the primary context of a device that the program uses: one that is active, else the one
// opened or adopted last, else device 0.
func (h *host) retain(f *frame) (primary, error) {
	lib := f.lib
	dev, err := h.choose(f)
	if err != nil {
		return primary{}, err
	}
	if err := f.call(&lib.primaryCtxRetain, f.out(0), dev); err != nil {
		return primary{}, err
	}
	return primary{dev, f.outs[0]}, nil
}

func (h *host) choose(f *frame) (dev uintptr, err error) {
	n, err := h.driver.Devices()
	if err != nil {
		return 0, err
	}
	for i := range n {
		if err := f.call(&f.lib.deviceGet, f.out(0), uintptr(i)); err != nil {
			return 0, err
		}
		dev := uintptr(int32(f.outs[0]))
		if err := f.call(&f.lib.primaryCtxGetState, dev, f.out(0), f.out(1)); err != nil {
			return 0, err
		}
		if int32(f.outs[1]) != 0 {
			return dev, nil
		}
	}
	return uintptr(h.driver.used.Load()), nil
}
