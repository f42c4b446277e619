package pintensor

import (
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// lock page-locks a new block. It reports false if the memory stays ordinary, which is no error on a
// machine without a GPU.
func (e *Engine) lock(mem unsafe.Pointer, size int64) (bool, error) {
	host := e.chooseHost()
	if host == nil {
		return false, nil
	}
	err := host.Register(mem, size)
	if err == nil {
		return true, nil
	}
	if host.Name() == "mlock" {
		e.lockErr.Store(&lockError{err})
		return false, nil
	}
	return false, err
}

type lockError struct{ err error }

// chooseHost decides, at first use, how memory is page-locked.
func (e *Engine) chooseHost() driver.Host {
	e.hostOnce.Do(func() {
		if e.host == nil {
			e.host = defaultHost()
		}
	})
	return e.host
}

// locking is what Stats says of page-locking.
func (e *Engine) locking() (name, problem string) {
	if e.n.cold.Load() > 0 && e.host != nil {
		name = e.host.Name()
	}
	if le := e.lockErr.Load(); le != nil {
		problem = le.err.Error()
	}
	return name, problem
}

func defaultHost() driver.Host { return nil }
