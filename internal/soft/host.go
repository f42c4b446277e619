package soft

// This file has the host: which ranges are locked, and how ranges that share a page are told apart.
//
// The system locks whole pages and doesn't count: unlocking a page once unlocks it, however often it
// was locked. Ranges can't overlap, so only their first and last pages are ever shared, and only
// those are counted. The pages between belong to one range for as long as it is listed.

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// Host returns the host that page-locks with mlock, or VirtualLock on Windows. It is one for the
// process, as the pages are. An error of Register that is driver.ErrOutOfMemory means the system's
// limit, which its text names with the way to raise it.
func Host() driver.Host { return processHost }

var processHost = &host{name: lockName, lock: lockPages, unlock: unlockPages, page: uintptr(os.Getpagesize())}

// host is a driver.Host over two system calls on whole pages.
type host struct {
	name         string
	lock, unlock func(addr, n uintptr) error
	page         uintptr

	mu     sync.Mutex
	ranges []*lockedRange // by address
	edges  map[uintptr]int
}

// lockedRange is what one Register call locked.
type lockedRange struct {
	addr, n uintptr
	leaving bool // Unregister is at work; its pages are still locked
}

func (h *host) Name() string { return h.name }

func (h *host) Register(p unsafe.Pointer, n int64) error {
	if p == nil {
		return h.failure("Register", driver.CodeInvalidValue, "p is nil")
	}
	if n <= 0 || uintptr(p)+uintptr(n) < uintptr(p) {
		return h.failure("Register", driver.CodeInvalidValue, "n is %d, must be positive and end in the address space", n)
	}
	r := &lockedRange{addr: uintptr(p), n: uintptr(n)}
	if err := h.add(r); err != nil {
		return err
	}
	first, size := h.pages(r)
	if err := h.lock(first, size); err != nil {
		// Part of it may be locked. What was locked before, for neighbours, stays so.
		if failed := h.release(r, true); failed != nil {
			return errors.Join(err, failed)
		}
		return err
	}
	return nil
}

func (h *host) Unregister(p unsafe.Pointer) error {
	h.mu.Lock()
	i, found := h.search(uintptr(p))
	if !found || h.ranges[i].leaving {
		h.mu.Unlock()
		return h.failure("Unregister", driver.CodeNotRegistered, "nothing was registered at %#x", uintptr(p))
	}
	r := h.ranges[i]
	r.leaving = true
	h.mu.Unlock()
	return h.release(r, false)
}

// add lists r unless it overlaps another range. Pages are counted before they are locked, so that a
// neighbour that leaves meanwhile does not unlock them.
func (h *host) add(r *lockedRange) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, found := h.search(r.addr)
	if found || i < len(h.ranges) && h.ranges[i].addr < r.addr+r.n || i > 0 && h.ranges[i-1].addr+h.ranges[i-1].n > r.addr {
		return h.failure("Register", driver.CodeAlreadyRegister, "part of the %d bytes at %#x is registered already", r.n, r.addr)
	}
	h.ranges = slices.Insert(h.ranges, i, r)
	if h.edges == nil {
		h.edges = make(map[uintptr]int)
	}
	first, last := h.edgesOf(r)
	h.edges[first]++
	if last != first {
		h.edges[last]++
	}
	return nil
}

// release unlocks the pages of r that no other range needs, and takes r from the list. If a page can't be
// unlocked r stays listed, so that Unregister can be repeated; with always it goes all the same. The pages
// between its edges can take long and are r's alone. The edges are unlocked under the mutex, else a
// neighbour could count and lock one of them between the count and the system call, and lose it; this takes
// a microsecond.
func (h *host) release(r *lockedRange, always bool) error {
	first, last := h.edgesOf(r)
	edges := slices.Compact([]uintptr{first, last}) // a small range has one
	var errs []error
	if inner := first + h.page; inner < last {
		errs = append(errs, h.unlock(inner, last-inner))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, page := range edges {
		if h.edges[page] == 1 {
			errs = append(errs, h.unlock(page, h.page))
		}
	}
	err := errors.Join(errs...)
	if err != nil && !always {
		r.leaving = false
		return err
	}
	for _, page := range edges {
		if h.edges[page]--; h.edges[page] == 0 {
			delete(h.edges, page)
		}
	}
	h.ranges = slices.DeleteFunc(h.ranges, func(other *lockedRange) bool { return other == r })
	return err
}

// search returns where in ranges one that begins at addr is or would be.
func (h *host) search(addr uintptr) (int, bool) {
	return slices.BinarySearchFunc(h.ranges, addr, func(r *lockedRange, addr uintptr) int {
		switch {
		case r.addr < addr:
			return -1
		case r.addr > addr:
			return 1
		}
		return 0
	})
}

// edgesOf returns the addresses of the first and the last page that r touches.
func (h *host) edgesOf(r *lockedRange) (first, last uintptr) {
	return r.addr &^ (h.page - 1), (r.addr + r.n - 1) &^ (h.page - 1)
}

// pages returns all the pages that r touches.
func (h *host) pages(r *lockedRange) (addr, n uintptr) {
	first, last := h.edgesOf(r)
	return first, last + h.page - first
}

func (h *host) failure(method string, code int, format string, args ...any) error {
	return &driver.Error{Call: fmt.Sprintf("%s.%s", h.name, method), Code: code, Name: codeNames[code], Text: fmt.Sprintf(format, args...)}
}
