package pintensor

// This file has Register: memory of the caller, page-locked where it is.

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// Register page-locks t's own memory where it is, without a copy, until unregister is called. It blocks
// while the driver does it: milliseconds for 100 MiB. Whole pages are locked, so memory that shares a
// page with something page-locked is refused with ErrOverlap. t may be a view: its part of the memory is
// locked. The memory is kept alive until then, also if t is dropped; t itself is not changed. Registered
// memory does not count towards WithLimit, and Close does not unregister it.
//
// unregister waits for copies of the memory in flight, at most 10 seconds. If they take longer, or a Hold
// on the memory is open, it returns ErrInUse and the memory stays registered. After it has returned nil
// it does nothing more.
func (e *Engine) Register(t *tensor.Dense) (unregister func() error, err error) {
	if t == nil {
		return nil, errors.New("pintensor: Register: t is nil, want a *tensor.Dense")
	}
	if e.closed.Load() {
		return nil, fmt.Errorf("pintensor: Register: %w", ErrClosed)
	}
	if err := e.takeErr(); err != nil {
		return nil, fmt.Errorf("pintensor: Register: %w", err)
	}
	if _, err := prototypeOf(t.Dtype()); err != nil {
		return nil, fmt.Errorf("pintensor: Register: %w", err)
	}
	if err := checkAccess(t); err != nil {
		return nil, fmt.Errorf("pintensor: Register: t of shape %v: %w", t.Shape(), err)
	}
	if len(t.Raw) == 0 {
		return func() error { return nil }, nil
	}
	b := e.foreignBlock(t.Raw)
	lo, hi := b.pages()
	if other := blocks.add(lo, hi, b); other != nil {
		whose := "memory given to Register before"
		if !other.foreign {
			whose = "a block that New, Pin or Alloc lent"
		}
		return nil, fmt.Errorf("pintensor: Register: t of shape %v shares memory pages with %s: %w",
			t.Shape(), whose, ErrOverlap)
	}
	if err := e.lockForeign(b); err != nil {
		blocks.remove(lo)
		return nil, fmt.Errorf("pintensor: Register: page-locking %d bytes: %w", b.size, err)
	}
	b.locked.Store(true)
	e.n.registered.add(int64(hi - lo))
	return func() error { return e.unregister(b) }, nil
}

// foreignBlock returns the bookkeeping for memory of the caller's.
func (e *Engine) foreignBlock(mem []byte) *block {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	return &block{eng: e, lo: p, size: int64(len(mem)), state: registered, foreign: true, backing: mem}
}

// pages returns the range of whole pages that the memory lies on. It is not the range that the driver
// is given: a pointer to the start of the first page could be one into memory that does not exist.
func (b *block) pages() (lo, hi uintptr) {
	return b.lo &^ (pageSize - 1), (b.lo + uintptr(b.size) + pageSize - 1) &^ (pageSize - 1)
}

// address returns where foreign memory starts.
func (b *block) address() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b.backing)) }

// lockForeign page-locks memory given to Register. Unlike new blocks it has no use if it isn't locked.
func (e *Engine) lockForeign(b *block) error {
	host := e.chooseHost()
	err := host.Register(b.address(), b.size)
	if errors.Is(err, driver.ErrOutOfMemory) && e.makeRoom(b.size, err) {
		err = host.Register(b.address(), b.size)
	}
	return err
}

func (e *Engine) unregister(b *block) error {
	done, err := e.leave(b)
	if done || err != nil {
		return err
	}
	b.locked.Store(false)
	if err := e.host.Unregister(b.address()); err != nil {
		b.locked.Store(true)
		b.mu.Lock()
		b.state = registered
		b.mu.Unlock()
		return fmt.Errorf("pintensor: unregister: %w", err)
	}
	lo, hi := b.pages()
	e.n.registered.lower(int64(hi - lo))
	blocks.remove(lo)
	b.mu.Lock()
	b.state, b.backing = gone, nil
	b.mu.Unlock()
	return nil
}

// leave takes registered memory out of use, when its copies are done. It reports true if the memory is
// unregistered already.
func (e *Engine) leave(b *block) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), e.maxWait)
	defer cancel()
	for {
		b.mu.Lock()
		var oldest use
		switch {
		case b.state == gone:
			done = true
		case b.state == leaving:
			err = fmt.Errorf("pintensor: unregister: being unregistered by another call: %w", ErrInUse)
		case len(b.holds) > 0:
			err = fmt.Errorf("pintensor: unregister: a hold on the memory is open: %w", ErrInUse)
		case len(b.uses) > 0:
			oldest = b.uses[0]
		default:
			b.state = leaving
		}
		b.mu.Unlock()
		if oldest.done == nil {
			return done, err
		}
		if werr := oldest.done.Wait(ctx); werr != nil && ctx.Err() != nil {
			return false, fmt.Errorf("pintensor: unregister: copies are in flight after %v: %w", e.maxWait, ErrInUse)
		}
		e.finish(b, []use{oldest})
	}
}
