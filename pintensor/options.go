package pintensor

// This file has the options of NewEngine.

import (
	"errors"
	"fmt"

	"github.com/pintensor/pin/internal/driver"
)

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
// 0xCC bytes (others) when it comes back, so that code which still reads a released tensor shows. When the
// block is lent again or given up and something else is in it, that call or the next returns a [WrittenError]: code
// still writes to a released tensor. With [WithLeakTracking] it names the lines that lent and released that.
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
