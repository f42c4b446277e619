package pintensor

// This file has Reserve: memory that is page-locked before it is needed.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"
)

// reservers is how many goroutines make blocks for Reserve. A driver page-locks one piece of memory at a
// time; what others do meanwhile is to have the system clear the memory of the next.
const reservers = 4

// Reserve puts n new blocks into the cache, each for a tensor of size bytes, so that the next n tensors of
// about that size need no call to the driver. It blocks until they are made, which on an H200's host takes
// 0.1 ms for a segment of small blocks, of up to 512 KiB, and 11 ms for a block of 256 MiB, one after the other;
// several goroutines work on it.
//
// What the blocks need beyond WithLimit or WithMaxCached is ErrLimit, before any is made. Nothing that is
// cached is given up for them. When the driver refuses, or ctx is done, the blocks made until then stay in
// the cache. Trim, TrimOlder and a limit that is reached give reserved blocks up like others.
func (e *Engine) Reserve(ctx context.Context, size int64, n int) error {
	if err := e.fill(ctx, size, n); err != nil {
		return fmt.Errorf("pintensor: Reserve: %w", err)
	}
	return nil
}

// ReserveAsync is Reserve in the background. It returns at once; the channel receives what Reserve would
// have returned, once, and need not be read. Close ends it after the blocks that are being made, with
// ErrClosed, and waits for it.
func (e *Engine) ReserveAsync(ctx context.Context, size int64, n int) <-chan error {
	result := make(chan error, 1)
	if err := e.usable(); err != nil {
		result <- fmt.Errorf("pintensor: ReserveAsync: %w", err)
		return result
	}
	if !e.background.run(&e.closed, func() { result <- e.Reserve(ctx, size, n) }) {
		result <- fmt.Errorf("pintensor: ReserveAsync: %w", ErrClosed)
	}
	return result
}

// fill checks what Reserve was asked for and makes the blocks.
func (e *Engine) fill(ctx context.Context, size int64, n int) error {
	if ctx == nil {
		return errors.New("ctx is nil, want a context")
	}
	if err := e.usable(); err != nil {
		return err
	}
	if size < 0 || size > largest() {
		return fmt.Errorf("size is %d, want 0 to the %d bytes of the machine's memory", size, largest())
	}
	class, each := classOf(max(size, e.smallest))
	if n < 0 || int64(n) > largest()/each {
		return fmt.Errorf("n is %d blocks of %d bytes, want 0 to the %d bytes of the machine's memory", n, each, largest())
	}
	if total := int64(n) * each; e.limit > 0 && total > e.limit-e.owned.Load() {
		return e.limitError(total)
	} else if have := e.n.cached.now(); e.maxCached > 0 && total > e.maxCached-have {
		return fmt.Errorf("%d bytes, beside the %d cached, are more than the %d of WithMaxCached: %w", total, have, e.maxCached, ErrLimit)
	}
	per := e.perSegment(class, each, n)
	pieces := (n + per - 1) / per
	g, ctx := errgroup.WithContext(ctx)
	var begun atomic.Int64
	for range min(pieces, reservers, runtime.GOMAXPROCS(0)) {
		g.Go(func() error {
			for {
				i := int(begun.Add(1)) - 1
				if i >= pieces {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				// Small blocks are cached by core: each core has its share.
				if err := e.stock(&e.shelves[i%len(e.shelves)], class, each, min(per, n-i*per)); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// perSegment returns how many blocks the segments are to have in which Reserve makes n: each core's share, but no fewer
// than the memory has room for that a segment takes in any case.
func (e *Engine) perSegment(class int, size int64, n int) int {
	if class >= carvedClasses {
		return 1
	}
	share := (n + len(e.shelves) - 1) / len(e.shelves)
	return max(min(share, int(maxSegment/size)), int(minSegment/size))
}

// stock puts a new segment of n blocks into the cache.
func (e *Engine) stock(near *shelf, class int, size int64, n int) error {
	if e.closed.Load() {
		return ErrClosed
	}
	e.freeing.Add(1) // nobody has the blocks before they are cached
	defer e.freeing.Add(-1)
	s, mem, err := e.newSegment(near, class, size, n)
	if err != nil {
		return err
	}
	if s.first.is(dirty) { // better now than when it is lent
		e.clearAll(unsafe.Slice((*byte)(mem), s.bytes()))
		s.first.marks &^= dirty
	}
	if e.shelve(near, s, s.all(), mem) {
		return nil
	}
	err = ErrClosed
	if !e.closed.Load() {
		err = fmt.Errorf("others have filled the cache up to WithMaxCached: %w", ErrLimit)
	}
	return errors.Join(err, e.discard(cached{s.first, mem}))
}

// background is the goroutines that may outlive the call that started them, but not Close.
type background struct {
	mu sync.Mutex // makes one of two: to see that the engine is open and begin, and to close it
	wg sync.WaitGroup
}

// run starts work. It reports false if the engine is closed.
func (g *background) run(closed *atomic.Bool, work func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if closed.Load() {
		return false
	}
	g.wg.Go(work)
	return true
}

// end closes the engine, and returns when all have ended. Those that want to begin meanwhile are not held up.
func (g *background) end(closed *atomic.Bool) {
	g.mu.Lock()
	closed.Store(true)
	g.mu.Unlock()
	g.wg.Wait()
}
