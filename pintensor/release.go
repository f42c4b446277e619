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
	b, err := e.blockToRelease(t)
	if err != nil {
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

// AllowDrop says that t, which New or Pin returned, may be dropped without Release: Stats.Forgotten, Forgotten and
// package pintest then don't count it. It serves code that hands t on to callers who need not know whose memory
// it is, as asynccopy.ToHost does. Release is still the faster way to give the memory back. The errors are those of
// Release.
func (e *Engine) AllowDrop(t *tensor.Dense) error {
	if t == nil {
		return errors.New("pintensor: AllowDrop: t is nil, want a *tensor.Dense")
	}
	b, err := e.blockToRelease(t)
	if err == nil {
		b.marks |= droppable
		b.mu.Unlock()
		return nil
	}
	return fmt.Errorf("pintensor: AllowDrop: t of shape %v: %w", t.Shape(), err)
}

// blockToRelease returns the block that t may release, with its lock held, or why it may release none.
func (e *Engine) blockToRelease(t *tensor.Dense) (*block, error) {
	b := blocks.holding(t.Raw)
	if b == nil && wasGivenUp(t) {
		return nil, ErrReleased
	}
	if b == nil || b.eng != e || b.foreign {
		return nil, ErrNotPinned
	}
	b.mu.Lock()
	if err := b.mayRelease(t); err != nil {
		b.mu.Unlock()
		return nil, err
	}
	return b, nil
}
