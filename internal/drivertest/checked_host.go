package drivertest

// This file checks host registration.

import (
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

type checkedHost struct {
	*ledger
	inner  driver.Host
	ranges map[uintptr]int64 // registered, or about to be; guarded by ledger.mu
}

// registration is the ledger's key.
type registration struct{ addr uintptr }

func (h *checkedHost) Name() string { return h.inner.Name() }

func (h *checkedHost) Register(p unsafe.Pointer, n int64) error {
	if other, overlaps := h.reserve(uintptr(p), n); overlaps {
		h.complain("Register(%#x, %d) overlaps what was registered at %#x", uintptr(p), n, other)
		return h.inner.Register(p, n)
	}
	err := h.inner.Register(p, n)
	if err != nil {
		h.drop(uintptr(p))
		return err
	}
	h.add(registration{uintptr(p)}, fmt.Sprintf("registration of %d bytes at %#x", n, uintptr(p)))
	return nil
}

func (h *checkedHost) Unregister(p unsafe.Pointer) error {
	if !h.remove(registration{uintptr(p)}) {
		h.complain("Unregister(%#x): not registered", uintptr(p))
		return h.inner.Unregister(p)
	}
	err := h.inner.Unregister(p)
	h.drop(uintptr(p))
	return err
}

// reserve lists a range unless it overlaps one.
func (h *checkedHost) reserve(addr uintptr, n int64) (other uintptr, overlaps bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for start, size := range h.ranges {
		if addr < start+uintptr(size) && start < addr+uintptr(n) {
			return start, true
		}
	}
	if h.ranges == nil {
		h.ranges = make(map[uintptr]int64)
	}
	h.ranges[addr] = n
	return 0, false
}

func (h *checkedHost) drop(addr uintptr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ranges, addr)
}
