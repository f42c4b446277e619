package pintensor

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// Engine lends page-locked memory, as tensors, and keeps what comes back for the next. It is a
// tensor.Engine: tensors made with tensor.WithEngine(engine), and the results of arithmetic on them,
// have their memory from it. All methods may be called from any goroutine at any time.
type Engine struct {
	tensor.StdEng // arithmetic

	limit   int64
	poison  bool
	maxWait time.Duration

	hostOnce sync.Once
	host     driver.Host
	locking  atomic.Value            // of string: the host's name, once it was asked for anything
	noCUDA   atomic.Pointer[refusal] // why it isn't the CUDA driver
	lockErr  atomic.Pointer[refusal] // why the latest block could not be page-locked

	lists   [numClasses]freeList
	owned   atomic.Int64 // bytes of all blocks, lent, cached and in flight: what the limit bounds
	flight  flight
	lastUse atomic.Uint64
	n       counters
	closed  atomic.Bool

	strandedMu sync.Mutex
	stranded   []cached // blocks that the driver did not unregister

	errMu   sync.Mutex
	pending error // met where nobody could be told
	hasErr  atomic.Bool
}

// Option changes how NewEngine sets an engine up.
type Option func(*Engine) error

// WithLimit bounds the memory that the engine holds, lent and cached together, in bytes. The default,
// also given by 0, is no limit. A negative limit is an error.
func WithLimit(bytes int64) Option {
	return func(e *Engine) error {
		if bytes < 0 {
			return fmt.Errorf("pintensor: WithLimit: bytes is %d, want at least 0", bytes)
		}
		e.limit = bytes
		return nil
	}
}

// WithPoison makes the engine fill every block with NaN (tensors of floats and complex numbers) or
// 0xCC bytes (others) when it comes back, so that code which still reads a released tensor shows.
func WithPoison() Option {
	return func(e *Engine) error { e.poison = true; return nil }
}

// WithDriver makes the engine page-lock memory through h. It serves this module's own tests; the type
// is not accessible elsewhere.
func WithDriver(h driver.Host) Option {
	return func(e *Engine) error {
		if h == nil {
			return errors.New("pintensor: WithDriver: host is nil")
		}
		e.host = h
		return nil
	}
}

// NewEngine returns an engine. It asks for no memory and no driver until the first tensor.
func NewEngine(opts ...Option) (*Engine, error) {
	e := &Engine{maxWait: maxWait, poison: invariants}
	for _, o := range opts {
		if err := o(e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// New returns a tensor of zeros in page-locked memory, contiguous and row-major. Without a shape it is a
// scalar; a shape with a 0 in it has no elements.
func (e *Engine) New(dt tensor.Dtype, shape ...int) (*tensor.Dense, error) {
	p, n, err := e.admit("New", dt, shape)
	if err != nil {
		return nil, err
	}
	d, dirty, err := e.lend(p, n, shape)
	if err != nil {
		return nil, fmt.Errorf("pintensor: New: %w", err)
	}
	if dirty {
		clear(d.Raw)
	}
	return d, nil
}

// lend takes a block of at least n bytes and makes a tensor of it. Its contents are zeros, or what the last tenant
// left if dirty.
func (e *Engine) lend(p *prototype, n int64, shape []int) (d *tensor.Dense, dirty bool, err error) {
	c, err := e.take(n)
	if err != nil {
		return nil, false, err
	}
	dirty = c.b.dirty
	// At least one byte of room, or the slice of an empty tensor would have no address to know it by.
	d = p.dense(unsafe.Slice((*byte)(c.mem), max(n, 1))[:n], shape)
	c.b.lend(addressOf(d), n, p.fill)
	return d, dirty, nil
}

// admit checks what every call that lends memory checks.
func (e *Engine) admit(call string, dt tensor.Dtype, shape []int) (*prototype, int64, error) {
	if e.closed.Load() {
		return nil, 0, fmt.Errorf("pintensor: %s: %w", call, ErrClosed)
	}
	if err := e.takeErr(); err != nil {
		return nil, 0, err
	}
	p, err := prototypeOf(dt)
	if err != nil {
		return nil, 0, fmt.Errorf("pintensor: %s: %w", call, err)
	}
	n, err := p.bytes(shape)
	if err != nil {
		return nil, 0, fmt.Errorf("pintensor: %s: %w", call, err)
	}
	return p, n, nil
}

// Release gives the memory of t back, at once and without waiting. Copies in flight may go on: the
// memory is lent again when they are done. t must be the tensor that New or Pin returned, and must not be used afterwards, nor its
// views; tensor operations on t itself then fail instead of reading somebody else's data.
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
	isFree := b.release()
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

// IsPinned reports whether all of t's memory is page-locked now, by any engine of the process. It goes
// by address: views and Registered tensors are pinned, whatever engine they carry.
func (e *Engine) IsPinned(t tensor.Tensor) bool {
	b := blockOf(t)
	return b != nil && b.locked.Load()
}

// Owns reports whether t's memory is a block of this engine, page-locked or not.
func (e *Engine) Owns(t tensor.Tensor) bool {
	b := blockOf(t)
	return b != nil && b.eng == e && !b.foreign
}

func blockOf(t tensor.Tensor) *block {
	d, ok := t.(*tensor.Dense)
	if !ok || d == nil {
		return nil
	}
	return blocks.holding(d.Raw)
}

// note keeps an error for the next call.
func (e *Engine) note(err error) {
	if err == nil {
		return
	}
	e.errMu.Lock()
	e.pending = errors.Join(e.pending, err)
	e.hasErr.Store(true)
	e.errMu.Unlock()
}

func (e *Engine) takeErr() error {
	if !e.hasErr.Load() {
		return nil
	}
	e.errMu.Lock()
	defer e.errMu.Unlock()
	err := e.pending
	e.pending = nil
	e.hasErr.Store(false)
	return err
}
