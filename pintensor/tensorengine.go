package pintensor

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/tensor"
)

// This file makes Engine a tensor.Engine with memory of its own. Arithmetic is tensor.StdEng's.
//
// Nobody tells an engine when a tensor that it gave memory to is done with: tensor never calls Free. So
// this memory comes back when the collector finds that no tensor or slice refers to it any more.

var (
	_ tensor.Engine       = (*Engine)(nil)
	_ tensor.NonStdEngine = (*Engine)(nil)
)

// NonStdAlloc tells package tensor to have memory from Alloc. Without it tensor would silently allocate
// ordinary memory.
func (e *Engine) NonStdAlloc() {}

// AllocAccessible returns true: the host reads and writes pinned memory as any other.
func (e *Engine) AllocAccessible() bool { return true }

// Alloc returns size bytes of zeroed page-locked memory. Package tensor calls it for a tensor made
// with tensor.WithEngine(e), and for results of arithmetic on such a tensor; where it fails, tensor
// panics with its error. The memory comes back when no tensor or slice refers to it any more, or with Free.
//
// Alloc is not told the dtype. A tensor of strings, or of anything else that holds pointers, must not
// be made with this engine: the garbage collector does not look into its memory.
func (e *Engine) Alloc(size int64) (tensor.Memory, error) {
	if err := e.usable(); err != nil {
		return nil, fmt.Errorf("pintensor: Alloc: %w", err)
	}
	if size < 0 || size > largest() {
		return nil, fmt.Errorf("pintensor: Alloc: size is %d, want 0 to the %d bytes of the machine's memory", size, largest())
	}
	if err := e.takeErr(); err != nil {
		return nil, fmt.Errorf("pintensor: Alloc: %w", err)
	}
	near := e.shelf()
	c, err := e.take(near, max(size, minBlock), size) // not part of a segment that others keep from being reclaimed
	if err != nil {
		return nil, fmt.Errorf("pintensor: Alloc: %w", err)
	}
	if c.b.is(dirty) {
		e.clearAll(unsafe.Slice((*byte)(c.mem), size))
	}
	c.b.lend(near, 0, size, poisonNaN)
	if e.tracker != nil {
		e.tracker.lent(c.b, size, nil)
	}
	return &memory{p: c.mem, n: size, lease: c.b.lease}, nil
}

// Free gives memory of Alloc back at once. mem is what Alloc returned, or the *tensor.Dense that was
// made with it, which must not be used afterwards, nor its views; size is the memory's size in bytes.
// Memory of New and Pin is ErrNotOwner: Release it.
func (e *Engine) Free(mem tensor.Memory, size int64) error {
	var err error
	switch m := mem.(type) {
	case *memory:
		err = e.free(unsafe.Slice((*byte)(m.p), m.n), size, nil, m.lease)
	case *tensor.Dense:
		if m == nil {
			return errors.New("pintensor: Free: mem is nil")
		}
		err = e.free(m.Raw, size, m, 0)
	default:
		err = fmt.Errorf("mem is a %T, want what Alloc returned or a *tensor.Dense: %w", mem, ErrNotOwner)
	}
	if err != nil {
		return fmt.Errorf("pintensor: Free: %w", err)
	}
	return nil
}

// free gives back the memory of t, or of the lease if t is nil.
func (e *Engine) free(raw []byte, size int64, t *tensor.Dense, lease uint32) error {
	b := blocks.holding(raw)
	if b == nil || b.eng != e || b.foreign {
		return ErrNotPinned
	}
	start := unsafe.Pointer(unsafe.SliceData(raw))
	b.mu.Lock()
	var err error
	switch {
	case t != nil && isReleased(t), t == nil && lease != b.lease, b.state != lent:
		err = ErrReleased
	case b.owner != 0, t != nil && t.IsView(), uintptr(start) != b.lo:
		err = ErrNotOwner
	case size != b.want:
		err = fmt.Errorf("size is %d, want the %d bytes that were allocated", size, b.want)
	}
	if err != nil {
		b.mu.Unlock()
		return err
	}
	if t != nil {
		markReleased(t)
	}
	isFree := b.release(false)
	b.mu.Unlock()
	if isFree {
		return e.recycle(b, start)
	}
	return nil
}

// Memcpy copies as many bytes as both have. Each is what Alloc returned, or a tensor's memory.
func (e *Engine) Memcpy(dst, src tensor.Memory) error {
	d, s := bytesOf(dst), bytesOf(src)
	if d == nil || s == nil {
		return tensor.StdEng{}.Memcpy(dst, src) // e may be nil
	}
	copy(d, s)
	return nil
}

// bytesOf returns the memory of m if m is of a type that this package can look into.
func bytesOf(m tensor.Memory) []byte {
	switch m := m.(type) {
	case *memory:
		return unsafe.Slice((*byte)(m.p), m.n)
	case *tensor.Dense:
		if m != nil && m.IsNativelyAccessible() {
			return m.Raw
		}
	}
	return nil
}

// memory is what Alloc returns. It refers to the block's memory, which so lives at least as long.
type memory struct {
	p     unsafe.Pointer
	n     int64
	lease uint32
}

// Uintptr returns the address. It doesn't keep the memory alive; see reclaim.
func (m *memory) Uintptr() uintptr { return uintptr(m.p) }

// MemSize returns the size in bytes.
func (m *memory) MemSize() uintptr { return uintptr(m.n) }

// Zero clears the memory. tensor's Memclr calls it.
func (m *memory) Zero() { clear(unsafe.Slice((*byte)(m.p), m.n)) }
