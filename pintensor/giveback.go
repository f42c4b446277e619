package pintensor

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// This file has what shrinks an engine.

// Trim gives cached blocks back until at most keepBytes are cached, and returns how many bytes it freed:
// they are unregistered, and the Go heap's to use otherwise or return to the system. Trim waits for no
// copy; blocks in flight stay, and so do free blocks smaller than 32 KiB that share a segment with one in use.
func (e *Engine) Trim(keepBytes int64) (freed int64, err error) {
	if keepBytes < 0 {
		return 0, fmt.Errorf("pintensor: Trim: keepBytes is %d, want at least 0", keepBytes)
	}
	if err := e.usable(); err != nil {
		return 0, fmt.Errorf("pintensor: Trim: %w", err)
	}
	e.poll(pollAll)
	freed, err = e.empty(keepBytes)
	if err != nil {
		err = fmt.Errorf("pintensor: Trim: %w", err)
	}
	return freed, err
}

// Close waits for the copies in flight, at most 10 seconds, and gives all cached memory back. Memory
// that is lent stays good, and is given back when it is released or dropped. Other calls then return
// ErrClosed, except Release, Free, unregister functions, Stats, Leaks, Forgotten and questions such as IsPinned.
// What ReserveAsync does in the background ends first, after the blocks that the driver is at.
//
// Copies that take longer are ErrInUse: their memory is kept until they are done and the engine is used
// or closed again. Closing again returns nil, or what went wrong since.
func (e *Engine) Close() error {
	if !e.made() {
		return fmt.Errorf("pintensor: Close: %w", errNotMade)
	}
	e.background.end(&e.closed)
	ctx, cancel := context.WithTimeout(context.Background(), e.maxWait)
	defer cancel()
	var err error
	for again := true; again; again = e.flight.n.Load() > 0 && ctx.Err() == nil { // calls in progress issue more
		e.poll(pollAll)
		for e.waitOldest(ctx) {
		}
		_, eerr := e.empty(0)
		err = errors.Join(err, eerr)
	}
	err = errors.Join(err, e.letContextGo())
	if n := e.flight.n.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d blocks are still being copied after %v: %w", n, e.maxWait, ErrInUse))
	}
	if err != nil {
		err = fmt.Errorf("pintensor: Close: %w", err)
	}
	return err
}

// empty discards cached blocks until at most keep bytes are cached.
func (e *Engine) empty(keep int64) (freed int64, err error) {
	stranded, err := e.giveUpStranded()
	want := int64(math.MaxInt64)
	if keep > 0 {
		want = e.n.cached.now() - keep
	}
	freed, gerr := e.giveUp(want)
	return stranded + freed, errors.Join(e.takeErr(), err, gerr)
}
