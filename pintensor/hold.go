package pintensor

// This file has holds: how code that issues copies tells which memory they use.

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"
)

// Hold keeps a block from being recycled, given up or collected while device work on it is being
// issued. End it exactly once, with Until or Done; ending it again does nothing. The zero Hold holds
// nothing, and ending it is harmless. It is a small value: passing it around allocates nothing.
type Hold struct {
	b      *block
	mem    unsafe.Pointer // keeps the memory alive
	serial uint32
}

// Acquire says that a device is about to read or write the memory of t, which may be any tensor: a view
// or a Registered tensor too. Code that issues copies calls it before issuing, and ends the hold with
// Until after.
//
// The hold is on the block that t's memory lies in, whichever engine it belongs to. A block that could
// not be page-locked is held as well, with Pinned false, so end every hold. For memory that is no block
// the hold is zero. A tensor that was released is ErrReleased. Acquire does not block, and allocates
// nothing.
func Acquire(t *tensor.Dense) (Hold, error) {
	if t == nil {
		return Hold{}, errors.New("pintensor: Acquire: t is nil, want a *tensor.Dense")
	}
	h, err := acquire(t)
	if err != nil {
		return Hold{}, fmt.Errorf("pintensor: Acquire: t of shape %v: %w", t.Shape(), err)
	}
	return h, nil
}

func acquire(t *tensor.Dense) (Hold, error) {
	b := blocks.holding(t.Raw)
	if b == nil && wasGivenUp(t) {
		return Hold{}, ErrReleased
	}
	if b == nil {
		return Hold{}, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.foreign && b.state != registered { // on its way out
		return Hold{}, nil
	}
	if b.state == free || b.state == busy || isReleased(t) {
		return Hold{}, ErrReleased
	}
	h := b.hold(unsafe.Pointer(unsafe.SliceData(t.Raw)))
	if k := b.eng.tracker; k != nil {
		k.held(b, h.serial, int64(len(t.Raw)), t)
	}
	return h, nil
}

// hold opens a hold on the block. b.mu is held.
func (b *block) hold(mem unsafe.Pointer) Hold {
	if b.device == nil {
		b.device = new(deviceUse) // once in the life of a block
	}
	d := b.device
	d.lastHold++
	d.holds = append(d.holds, d.lastHold)
	return Hold{b: b, mem: mem, serial: d.lastHold}
}

// InUse reports whether a device uses the memory that t lies in: copies of it, or of a view of it, are in flight, or a
// Hold on it is open. Whoever uses memory again without releasing it asks before writing to it. Memory of no engine,
// and a tensor that was released, is in nobody's use. It does not block.
func InUse(t *tensor.Dense) bool {
	if t == nil || isReleased(t) {
		return false
	}
	b := blocks.holding(t.Raw)
	if b == nil {
		return false
	}
	b.mu.Lock()
	used := b.inUse()
	b.mu.Unlock()
	if !used {
		return false
	}
	b.eng.complete(b, pollAll)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse()
}

// Pinned reports whether the memory is page-locked, so that a copy of it runs while the host goes on.
func (h Hold) Pinned() bool { return h.b != nil && h.b.locked.Load() }

// Until ends the hold when c completes: the block stays alive, registered and unrecycled until then,
// also if the tensor is released or dropped now. The engine asks c whether it is done whenever it is
// used; it does not wait for it except where a call's documentation says so. A nil c is Done.
func (h Hold) Until(c Completion) {
	if h.b == nil {
		return
	}
	if c == nil {
		h.Done()
		return
	}
	b := h.b
	e := b.eng
	b.mu.Lock()
	if !b.endHold(h.serial) {
		b.mu.Unlock()
		return
	}
	d := b.device
	if len(d.uses) == 0 {
		e.n.inFlight.add(b.size)
		d.keep = h.mem
	} else if s, ok := c.(Successor); ok {
		d.uses = slices.DeleteFunc(d.uses, func(u use) bool { return s.Follows(u.done) })
	}
	d.uses = append(d.uses, use{seq: e.lastUse.Add(1), done: c})
	enqueue := !d.queued
	d.queued = true
	crowded := len(d.uses) > pollSome
	b.mu.Unlock()
	if enqueue {
		e.flight.push(b)
	}
	if crowded {
		e.complete(b, pollSome)
	}
}

// Done ends the hold: the copy was not issued, or has completed.
func (h Hold) Done() {
	if h.b == nil {
		return
	}
	b := h.b
	b.mu.Lock()
	recycle := b.endHold(h.serial) && b.settle()
	b.mu.Unlock()
	if recycle {
		b.eng.note(b.eng.recycle(b, b.start(h.mem)))
	}
}

// endHold removes a hold and reports whether it was open. b.mu is held.
func (b *block) endHold(serial uint32) bool {
	holds := b.device.holds // the hold made it
	for i, s := range holds {
		if s == serial {
			last := len(holds) - 1
			holds[i] = holds[last]
			b.device.holds = holds[:last]
			if k := b.eng.tracker; k != nil {
				k.unheld(b, serial)
			}
			return true
		}
	}
	return false
}

// loseHolds ends the holds on a block that is unreachable: nobody has them any more, since a Hold refers to the
// memory. b.mu is held.
func (b *block) loseHolds() {
	if !b.held() {
		return
	}
	b.eng.n.lostHolds.Add(int64(len(b.device.holds)))
	if k := b.eng.tracker; k != nil {
		for _, serial := range b.device.holds {
			k.unheld(b, serial)
		}
	}
	b.device.holds = b.device.holds[:0]
}

// OpenHolds returns how many holds on the engine's memory, and on memory given to its Register, have not
// ended. While copies are being issued there are some. It looks at every block, so it serves tests more than
// programs.
func (e *Engine) OpenHolds() (n int) {
	for s := range blocks.of(e) {
		for _, b := range s.all() {
			b.mu.Lock()
			if b.device != nil {
				n += len(b.device.holds)
			}
			b.mu.Unlock()
		}
	}
	return n
}

// settle makes a released block free if nothing uses it any more, and reports whether it did: then it
// is the caller's to recycle. b.mu is held.
func (b *block) settle() bool {
	if b.state != busy || b.inUse() {
		return false
	}
	b.state = free
	return true
}
