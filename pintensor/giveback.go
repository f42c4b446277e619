package pintensor

import (
	"context"
	"errors"
	"fmt"
)

// Trim gives cached blocks back to the system until at most keepBytes are cached, and returns how many bytes
// it freed. It waits for no copy: blocks in flight stay.
func (e *Engine) Trim(keepBytes int64) (freed int64, err error) {
	if keepBytes < 0 {
		return 0, fmt.Errorf("pintensor: Trim: keepBytes is %d, want at least 0", keepBytes)
	}
	if e.closed.Load() {
		return 0, fmt.Errorf("pintensor: Trim: %w", ErrClosed)
	}
	err = e.takeErr()
	e.poll(pollAll)
	freed, gerr := e.giveUp(e.n.cached.current.Load() - keepBytes)
	return freed, errors.Join(err, gerr)
}

// Close waits for the copies in flight and gives all cached memory back. Memory that is lent stays
// good; it is given back when it is released or dropped. Other calls then return ErrClosed. Closing
// again returns nil.
func (e *Engine) Close() error {
	e.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), e.maxWait)
	defer cancel()
	for e.waitOldest(ctx) {
	}
	err := e.takeErr()
	_, gerr := e.giveUp(1 << 62)
	return errors.Join(err, gerr)
}
