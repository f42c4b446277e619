package pintensor

// This file has PinInto: Pin into memory that is there.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/strided"
	"gorgonia.org/tensor"
)

// PinInto copies src into dst, which is in memory of this engine: a tensor of New or Pin, a view of one, or one that
// was given to Register. dst has the same dtype and shape, and is contiguous and row-major. src may have any layout,
// and any memory that the host can access, as with Pin; it is only read. As many goroutines copy as for Pin, where Go's
// copy is work of one core. Of what is contiguous and smaller than that nothing is allocated.
//
// Copies in flight that use dst's memory, to a device or from one, are waited for, and nothing else is: two buffers that
// are filled in turn, and copied with nonBlocking, need no other care. What is waited for is the use of the whole tensor
// of which dst is a view. If that takes more than 10 seconds, or a Hold on the memory is open for as long, PinInto
// returns ErrInUse. A copy into src has to be waited for by the caller, as before any other reading.
//
// Errors are [ErrNotPinned] if dst is not page-locked memory of this engine, [ErrReleased] if dst or src was released, and
// [ErrClosed] after Close; another dtype or shape, and a dst that is not contiguous, are errors too. Calls for parts of one
// tensor that have nothing in common may run at once.
//
// If src has a mask dst gets a copy of it, and otherwise has none afterwards. dst and src must not have memory in common:
// what counts is the range from a tensor's first element to its last. After an error dst is as it was.
func (e *Engine) PinInto(dst, src *tensor.Dense) error {
	if err := e.pinInto(dst, src); err != nil {
		return fmt.Errorf("pintensor: PinInto: %w", err)
	}
	return nil
}

func (e *Engine) pinInto(dst, src *tensor.Dense) error {
	if err := e.usable(); err != nil {
		return err
	}
	b, n, err := e.destination(dst)
	if err != nil {
		return err
	}
	layout, err := sourceFor(dst, src)
	if err != nil {
		return err
	}
	to := dst.Raw[:n]
	if overlap(to, src.Raw) {
		return fmt.Errorf("dst of shape %v and src have memory in common", dst.Shape())
	}
	var mask []bool
	if src.IsMasked() && len(src.Mask()) > 0 {
		if mask, err = layout.Mask(src.Mask()); err != nil {
			return fmt.Errorf("src: %w", err)
		}
	}
	if err := b.awaitDevices(); err != nil {
		return fmt.Errorf("dst of shape %v: %w", dst.Shape(), err)
	}
	if g := grainOf(layout); n < g.from { // without share, whose closure would be allocated
		layout.Gather(to, 0)
	} else {
		gatherParts(e.parallelism, to, layout, int(dst.Dtype().Size()), g)
	}
	if mask != nil || len(dst.Mask()) > 0 {
		setMask(dst, mask)
	}
	return nil
}

// destination returns the block that dst lies in and dst's size, or why it can't be copied into.
func (e *Engine) destination(dst *tensor.Dense) (*block, int, error) {
	if dst == nil {
		return nil, 0, errors.New("dst is nil, want a *tensor.Dense")
	}
	b := blocks.holding(dst.Raw)
	var err error
	switch {
	case b == nil && wasGivenUp(dst), b != nil && b.isBack(dst):
		err = ErrReleased
	case b == nil || b.foreign && !b.locked.Load():
		err = ErrNotPinned
	case b.eng != e:
		err = fmt.Errorf("it is another engine's: %w", ErrNotPinned)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("dst of shape %v: %w", dst.Shape(), err)
	}
	layout, err := strided.Of(dst)
	if err != nil {
		return nil, 0, fmt.Errorf("dst: %w", err)
	}
	if !layout.Contiguous() {
		return nil, 0, fmt.Errorf("dst: its strides are %v for shape %v, want contiguous row-major memory", dst.Strides(), dst.Shape())
	}
	return b, layout.Size(), nil
}

// sourceFor returns where the elements of src are, if they can be copied into dst. There is no Hold on src, nor on
// dst: copies between views of one tensor, on several goroutines, would wait for each other.
func sourceFor(dst, src *tensor.Dense) (strided.Layout, error) {
	if src == nil {
		return strided.Layout{}, errors.New("src is nil, want a *tensor.Dense")
	}
	err := checkAccess(src)
	if b := blocks.holding(src.Raw); b != nil && b.isBack(src) {
		err = ErrReleased
	}
	switch {
	case err != nil:
		return strided.Layout{}, fmt.Errorf("src of shape %v: %w", src.Shape(), err)
	case src.Dtype() != dst.Dtype():
		return strided.Layout{}, fmt.Errorf("src is of %v, dst of %v: want the same dtype", src.Dtype(), dst.Dtype())
	case !slices.Equal(src.Shape(), dst.Shape()):
		return strided.Layout{}, fmt.Errorf("src has shape %v, dst %v: want the same shape", src.Shape(), dst.Shape())
	}
	layout, err := strided.Of(src)
	if err != nil {
		return strided.Layout{}, fmt.Errorf("src: %w", err)
	}
	return layout, nil
}

// isBack reports whether t, whose memory lies in the block, was released, or is a view of what was.
func (b *block) isBack(t *tensor.Dense) bool {
	if b.foreign {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == free || b.state == busy || isReleased(t)
}

// awaitDevices returns when no copy is in flight that uses the block, and no Hold on it is open.
func (b *block) awaitDevices() error {
	b.mu.Lock()
	used := b.inUse()
	b.mu.Unlock()
	if !used {
		return nil
	}
	e := b.eng
	e.complete(b, pollAll) // most are done, and nobody has asked
	ctx, cancel := context.WithTimeout(context.Background(), e.maxWait)
	defer cancel()
	for pause := 10 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		b.mu.Lock()
		held, oldest := b.held(), use{}
		if u := b.oldestUse(); u != nil {
			oldest = *u
		}
		b.mu.Unlock()
		switch {
		case oldest.done != nil:
			if err := oldest.done.Wait(ctx); err != nil && ctx.Err() != nil {
				return fmt.Errorf("copies of its memory are in flight after %v: %w", e.maxWait, ErrInUse)
			}
			e.finish(b, []use{oldest}) // also a copy that failed, of which whoever issued it is told
		case held: // by a copy that is being issued: nobody tells when that ends
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return fmt.Errorf("a hold on its memory is open after %v: %w", e.maxWait, ErrInUse)
			}
		default:
			return nil
		}
	}
}

// overlap reports whether two pieces of memory have bytes in common.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	p, q := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return p < q+uintptr(len(b)) && q < p+uintptr(len(a))
}

// setMask gives dst a mask, or takes it away. Where dst is a view of a tensor with a mask it changes that.
func setMask(dst *tensor.Dense, mask []bool) {
	if own := dst.Mask(); dst.IsView() && len(own) > 0 {
		if mask == nil {
			clear(own)
		} else if len(own) == len(mask) {
			copy(own, mask)
			return
		}
	}
	dst.SetMask(mask)
}
