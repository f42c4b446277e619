package pintensor

// This file has WithMaxCached: how much the cache may keep.

import "fmt"

// WithMaxCached bounds the memory that the engine keeps for later, in bytes. A block that comes back when it
// would be more is given up at once, by the call that gave it back, which has to call the driver for it. Blocks
// larger than the bound are never kept, so it is to be more than what a program uses over
// and over. What is lent doesn't count. The default, also given by 0, is no bound; 1 keeps nothing. A negative
// bound is an error.
func WithMaxCached(bytes int64) Option {
	return func(e *Engine) error {
		if bytes < 0 {
			return fmt.Errorf("pintensor: WithMaxCached: bytes is %d, want at least 0", bytes)
		}
		e.maxCached = bytes
		return nil
	}
}

// mayCache counts n bytes as cached on a shelf, if they may be.
func (e *Engine) mayCache(at uint8, n int64) bool {
	if e.maxCached == 0 {
		e.n.cached.raise(at, n)
		return true
	}
	return e.n.cached.raiseTo(at, n, e.maxCached)
}
