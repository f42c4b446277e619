package pintensor

// This file has Engine: how tensors get their memory, and what can be asked of it.

import (
	"errors"
	"fmt"
	"runtime"
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

	limit       int64       // 0: none
	maxCached   int64       // 0: none
	aging       atomic.Bool // blocks know when they were cached
	age         sync.Once   // makes it so
	poison      bool
	parallelism int // goroutines that copy or clear for one call, at most
	maxWait     time.Duration
	tracker     *tracker // nil: leaks are not tracked

	hostOnce sync.Once
	host     driver.Host
	locking  atomic.Value            // of string: the host's name, once it was asked for anything
	noCUDA   atomic.Pointer[refusal] // why it isn't the CUDA driver
	lockErr  atomic.Pointer[refusal] // why the latest block could not be page-locked
	topology topology                // host.go decides on the node
	keeping  keeping                 // see host.go
	numaErr  atomic.Pointer[refusal] // why memory is not bound to it

	shelves []shelf
	large   [numClasses - shelfClasses]freeList
	owned   atomic.Int64 // bytes of all segments, whose blocks are lent, cached and in flight: what the limit bounds
	freeing atomic.Int64 // calls that the driver is at, after which there is more free or cached
	flight  flight
	lastUse atomic.Uint64
	n       counters
	closed  atomic.Bool

	background background
	leaving    workQueue

	edges edgePages // of memory given to Register

	carvedBytes    [carvedClasses]atomic.Int64 // of segments of several blocks
	carvedSegments atomic.Int64
	gc             gcWatch
	smallest       int64 // what is smaller takes a block of this size: tests that look at single blocks set it

	strandedMu sync.Mutex
	stranded   []cached // blocks that the driver did not unregister

	errMu   sync.Mutex
	pending error // met where nobody could be told
	hasErr  atomic.Bool
}

// NewEngine returns an engine. It asks for no memory and no driver until the first tensor. It keeps what
// it has cached until Close, also if it is no longer referred to.
func NewEngine(opts ...Option) (*Engine, error) {
	e := &Engine{
		maxWait: maxWait, poison: invariants, parallelism: mostParallel,
		topology: thisMachine(),
	}
	e.divide(runtime.GOMAXPROCS(0))
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("pintensor: NewEngine: option %d is nil", i)
		}
		if err := o(e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

var errNotMade = errors.New("the engine was not made by NewEngine")

// made reports whether e is an engine of NewEngine, and not nil or a zero Engine.
func (e *Engine) made() bool { return e != nil && len(e.shelves) > 0 }

// usable refuses calls that need an engine which is open.
func (e *Engine) usable() error {
	switch {
	case !e.made():
		return errNotMade
	case e.closed.Load():
		return ErrClosed
	}
	return nil
}

// New returns a tensor of zeros in page-locked memory, contiguous and row-major. Without a shape it is a
// scalar; a shape with a 0 in it has no elements.
func (e *Engine) New(dt tensor.Dtype, shape ...int) (*tensor.Dense, error) {
	p, n, err := e.admit("New", dt, shape)
	if err != nil {
		return nil, err
	}
	d, used, err := e.lend(p, n, shape)
	if err != nil {
		return nil, fmt.Errorf("pintensor: New: %w", err)
	}
	if used {
		e.clearAll(d.Raw)
	}
	return d, nil
}

// Empty is New without the zeros: what is in the tensor is undefined, until all of it is written. It
// serves code that is about to overwrite the tensor, for which clearing it would cost as much again.
func (e *Engine) Empty(dt tensor.Dtype, shape ...int) (*tensor.Dense, error) {
	p, n, err := e.admit("Empty", dt, shape)
	if err != nil {
		return nil, err
	}
	d, _, err := e.lend(p, n, shape)
	if err != nil {
		return nil, fmt.Errorf("pintensor: Empty: %w", err)
	}
	return d, nil
}

// lend takes a block of at least n bytes and makes a tensor of it. Its contents are zeros, or what the
// last tenant left if it was used.
func (e *Engine) lend(p *prototype, n int64, shape []int) (d *tensor.Dense, used bool, err error) {
	near := e.shelf()
	c, err := e.take(near, n, n)
	if err != nil {
		return nil, false, err
	}
	used = c.b.is(dirty)
	// At least one byte of room, or the slice of an empty tensor would have no address to know it by.
	d = p.dense(unsafe.Slice((*byte)(c.mem), max(n, 1))[:n], shape)
	c.b.lend(near, addressOf(d), n, p.fill)
	if e.tracker != nil {
		e.tracker.lent(c.b, n, d)
	}
	return d, used, nil
}

// admit checks what every call that lends memory checks.
func (e *Engine) admit(call string, dt tensor.Dtype, shape []int) (*prototype, int64, error) {
	if err := e.usable(); err != nil {
		return nil, 0, fmt.Errorf("pintensor: %s: %w", call, err)
	}
	if err := e.takeErr(); err != nil {
		return nil, 0, fmt.Errorf("pintensor: %s: %w", call, err)
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

// IsPinned reports whether all of t's memory is page-locked now, by any engine of the process. It goes
// by address: views and Registered tensors are pinned, whatever engine they carry. Memory that a program
// page-locked in another way, and sparse tensors, are not.
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

// takeErr returns what note kept, once.
func (e *Engine) takeErr() error {
	if !e.hasErr.Load() {
		return nil
	}
	e.errMu.Lock()
	defer e.errMu.Unlock()
	err := e.pending
	e.pending = nil
	e.hasErr.Store(false)
	if err == nil {
		return nil
	}
	return fmt.Errorf("giving memory back, earlier: %w", err)
}
