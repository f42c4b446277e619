package pintensor

// This file has Release, and who may call it.

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/tensor"
)

// Release gives the memory of t back, at once and without waiting. Copies in flight go on: the memory is
// lent again when they are done. t must be the tensor that New or Pin returned; a view of it, or another
// header on the same memory, is ErrNotOwner, t a second time ErrReleased, and memory of anyone else
// ErrNotPinned. Reshaping or transposing t in place makes no difference.
//
// Neither t nor its views may be used afterwards. Operations on t itself fail from then on, instead of
// reading somebody else's data.
func (e *Engine) Release(t *tensor.Dense) error {
	if t == nil {
		return errors.New("pintensor: Release: t is nil, want a *tensor.Dense")
	}
	b := blocks.holding(t.Raw)
	if b == nil && wasGivenUp(t) {
		return fmt.Errorf("pintensor: Release: t of shape %v: %w", t.Shape(), ErrReleased)
	}
	if b == nil || b.eng != e || b.foreign {
		return fmt.Errorf("pintensor: Release: t of shape %v: %w", t.Shape(), ErrNotPinned)
	}
	b.mu.Lock()
	if err := b.mayRelease(t); err != nil {
		b.mu.Unlock()
		return fmt.Errorf("pintensor: Release: t of shape %v: %w", t.Shape(), err)
	}
	markReleased(t)
	isFree := b.release(false)
	b.mu.Unlock()
	e.poll(pollSome)
	if isFree {
		if err := e.recycle(b, b.start(unsafe.Pointer(unsafe.SliceData(t.Raw)))); err != nil {
			return fmt.Errorf("pintensor: Release: %w", err)
		}
	}
	return nil
}

// mayRelease reports why t must not release the block. b.mu is held.
func (b *block) mayRelease(t *tensor.Dense) error {
	switch {
	case isReleased(t):
		return ErrReleased
	case t.IsView():
		return ErrNotOwner
	case b.state != lent:
		return ErrReleased
	case b.owner != addressOf(t):
		return ErrNotOwner
	}
	return nil
}
