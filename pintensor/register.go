package pintensor

// This file has Register: memory of the caller, page-locked where it is.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// # Registrations
//
// The driver is given exactly the bytes of the tensor, wherever they begin and end. It locks whole pages, and
// keeps a page that two registrations have bytes on until both are gone. So neighbours on a page are
// independent of each other, each copy lies in one registration (CUDA refuses one across two), and only bytes
// that are registered twice are refused. CUDA's bookkeeping is by bytes too, it is reported of driver 590, and the
// conformance suite of internal/drivertest looks; a driver that goes by pages refuses the second neighbour, which
// is then ErrOverlap.
//
// The registry, which is global, refers to the block, and the block to the memory: so the memory is alive for
// as long as it is registered, whatever the program drops. That the program has dropped it shows in two other
// objects that only the program refers to: the tensor's header, and a token that unregister closes over. When
// the collector finds neither any more the registration is undone; the memory is let go of after that.

// Register page-locks t's own memory where it is, without a copy, until unregister is called. It blocks
// while the driver does it: milliseconds for 100 MiB. t may be a view: its part of the memory is locked, from
// its first element to its last. t itself is not changed.
//
// Memory of any alignment can be registered, and tensors that lie on one page independently of each other; a page
// is locked until the last of them leaves it, and Stats counts it once. Bytes that are page-locked already, as a
// tensor given to Register or as memory of New, Pin or Alloc, are refused with ErrOverlap, and so are those
// that other code of the process has registered with CUDA.
//
// The memory is kept alive while it is registered, also if t is dropped. Registered memory does not count
// towards WithLimit, and Close does not unregister it. When the garbage collector finds that neither t nor
// unregister is referred to any more, nobody can call it: the memory is then unregistered in the
// background, as soon as no copy uses it and no Hold on it is open, and Stats.Forgotten counts it. Views of t that
// are left are then ordinary memory.
//
// unregister waits for copies of the memory in flight, at most 10 seconds. If they take longer, or a Hold
// on the memory is open, it returns ErrInUse and the memory stays registered, as it does when the driver
// fails; the call may be repeated. After it has returned nil it does nothing more.
func (e *Engine) Register(t *tensor.Dense) (unregister func() error, err error) {
	if t == nil {
		return nil, errors.New("pintensor: Register: t is nil, want a *tensor.Dense")
	}
	if err := e.usable(); err != nil {
		return nil, fmt.Errorf("pintensor: Register: %w", err)
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
	if other := blocks.add(b.lo, b.lo+uintptr(b.size), b.segment); other != nil {
		whose := "a tensor given to Register before"
		if !other.foreign {
			whose = "a block that New, Pin or Alloc lent"
		}
		return nil, fmt.Errorf("pintensor: Register: t of shape %v has memory in common with %s: %w", t.Shape(), whose, ErrOverlap)
	}
	if err := e.lockForeign(b); err != nil {
		blocks.remove(b.lo)
		return nil, fmt.Errorf("pintensor: Register: page-locking %d bytes: %w", b.size, err)
	}
	e.enter(b, t)
	owner := &token{b}
	b.watch(t, owner)
	return func() error {
		err := owner.b.eng.unregister(owner.b)
		runtime.KeepAlive(owner)
		return err
	}, nil
}

// foreignBlock returns the bookkeeping for memory of the caller's. It counts as registered only once it is.
func (e *Engine) foreignBlock(mem []byte) *block {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	s := &segment{eng: e, base: p, size: int64(len(mem)), foreign: true, registration: &registration{backing: mem}}
	s.first = &block{segment: s, lo: p, state: leaving}
	return s.first
}

// address returns where foreign memory starts.
func (b *block) address() unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(b.registration.backing))
}

// lockForeign page-locks memory given to Register. Unlike new blocks it has no use if it isn't locked.
func (e *Engine) lockForeign(b *block) error {
	host := e.chooseHost()
	err := host.Register(b.address(), b.size)
	if errors.Is(err, driver.ErrOutOfMemory) && e.makeRoom(b.size, err) {
		err = host.Register(b.address(), b.size)
	}
	if err == nil {
		e.keepContext()
		return nil
	}
	var refusal *driver.Error
	if errors.As(err, &refusal) && refusal.Code == driver.CodeAlreadyRegister {
		return fmt.Errorf("%w: other code of the process has registered it, or a page of it: %w", ErrOverlap, err)
	}
	return err
}

// enter counts memory that is locked now.
func (e *Engine) enter(b *block, t *tensor.Dense) {
	pages := e.edges.enter(b.lo, b.size)
	e.n.registered.add(pages)
	e.n.inPlace.add(pages)
	if e.tracker != nil {
		e.tracker.lent(b, b.size, t)
	}
	b.mu.Lock()
	b.state = registered
	b.locked.Store(true)
	b.mu.Unlock()
}

// unlockForeign undoes lockForeign and enter, and lets go of the memory. The block is leaving, or abandoned.
func (e *Engine) unlockForeign(b *block) error {
	if err := e.host.Unregister(b.address()); err != nil {
		return err
	}
	pages := e.edges.leave(b.lo, b.size)
	e.n.registered.lower(pages)
	e.n.inPlace.lower(pages)
	blocks.remove(b.lo) // while the memory is alive: nobody else can have it
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = gone
	b.registration.drop()
	return nil
}

func (e *Engine) unregister(b *block) error {
	done, err := e.leave(b)
	if done || err != nil {
		return err
	}
	b.locked.Store(false)
	if err := e.unlockForeign(b); err != nil {
		b.mu.Lock()
		b.state = registered
		b.locked.Store(true)
		b.mu.Unlock()
		return fmt.Errorf("pintensor: unregister: %w", err)
	}
	if e.tracker != nil {
		e.tracker.ended(b, false)
	}
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
		case b.held():
			err = fmt.Errorf("pintensor: unregister: a hold on the memory is open: %w", ErrInUse)
		case b.oldestUse() != nil:
			oldest = *b.oldestUse()
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
