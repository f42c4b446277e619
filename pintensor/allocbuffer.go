package pintensor

// This file has buffers: pinned memory as bytes, for code that has no use for a tensor.

import (
	"errors"
	"fmt"
	"unsafe"
)

// Buffer is page-locked memory as bytes, such as a chunk that copies of ordinary memory are staged through, or the
// rows of a batch. To take one from the cache and to release it allocates nothing: it is a small value, and
// every copy of it stands for the same memory. The zero Buffer has none.
type Buffer struct {
	b     *block
	mem   unsafe.Pointer // keeps the memory alive
	n     int64
	lease uint32
}

// bufferOwner is who owns the blocks of buffers: the address of no tensor.
const bufferOwner = 1

// AllocBuffer returns n bytes of page-locked memory, which are not zeroed. It is the caller's until Release. If it is
// dropped instead, the collector takes it back when nothing refers to the Buffer or its bytes, and
// Stats.Forgotten counts it. A slice of its bytes may be the backing of tensors, which must not be used
// after Release; they don't own the memory, so to release them is ErrNotOwner.
func (e *Engine) AllocBuffer(n int64) (Buffer, error) {
	if err := e.usable(); err != nil {
		return Buffer{}, fmt.Errorf("pintensor: AllocBuffer: %w", err)
	}
	if n < 0 || n > largest() {
		return Buffer{}, fmt.Errorf("pintensor: AllocBuffer: n is %d, want 0 to the %d bytes of the machine's memory", n, largest())
	}
	if err := e.takeErr(); err != nil {
		return Buffer{}, fmt.Errorf("pintensor: AllocBuffer: %w", err)
	}
	near := e.shelf()
	c, err := e.take(near, n, n)
	if err != nil {
		return Buffer{}, fmt.Errorf("pintensor: AllocBuffer: %w", err)
	}
	c.b.lend(near, bufferOwner, n, poisonByte)
	if e.tracker != nil {
		e.tracker.lent(c.b, n, nil)
	}
	return Buffer{c.b, c.mem, n, c.b.lease}, nil
}

// Bytes returns the memory. It has no room beyond its length, and starts on a multiple of 256 bytes.
func (f Buffer) Bytes() []byte {
	if f.b == nil {
		return nil
	}
	return unsafe.Slice((*byte)(f.mem), max(f.n, 1))[:f.n:max(f.n, 1)]
}

// Acquire is the function Acquire for the memory of a buffer. ErrReleased says that it was released.
func (f Buffer) Acquire() (Hold, error) {
	if f.b == nil {
		return Hold{}, nil
	}
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	if !f.isLent() {
		return Hold{}, fmt.Errorf("pintensor: Buffer.Acquire: %w", ErrReleased)
	}
	h := f.b.hold(f.mem)
	if k := f.b.eng.tracker; k != nil {
		k.held(f.b, h.serial, f.n, nil)
	}
	return h, nil
}

// Release gives the memory back, at once and without waiting; it is lent again when copies in flight are done.
// Neither the buffer nor anything made of its bytes may be used afterwards. A second Release, of any copy of
// the Buffer, is ErrReleased, and harms nobody who has the memory by then.
func (f Buffer) Release() error {
	if f.b == nil {
		return errors.New("pintensor: Buffer.Release: the zero Buffer has no memory")
	}
	b := f.b
	b.mu.Lock()
	if !f.isLent() {
		b.mu.Unlock()
		return fmt.Errorf("pintensor: Buffer.Release: %d bytes: %w", f.n, ErrReleased)
	}
	isFree := b.release(false)
	b.mu.Unlock()
	b.eng.poll(pollSome)
	if isFree {
		if err := b.eng.recycle(b, f.mem); err != nil {
			return fmt.Errorf("pintensor: Buffer.Release: %w", err)
		}
	}
	return nil
}

// isLent reports whether the memory is the buffer's still. Its block's lock is held.
func (f Buffer) isLent() bool { return f.b.state == lent && f.b.lease == f.lease }
