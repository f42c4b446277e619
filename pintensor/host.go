package pintensor

import (
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
)

// This file chooses who page-locks memory. With a CUDA device it is the CUDA driver, since copies are
// fast only from memory that it knows. Without one it is the operating system, which keeps the same
// program working the same way; and as nothing depends on it there, memory that the system does not
// let us lock is lent as it is.

// lock page-locks a new block. It reports false if the memory stays ordinary.
func (e *Engine) lock(mem unsafe.Pointer, size int64) (bool, error) {
	host := e.chooseHost()
	err := host.Register(mem, size)
	if err == nil {
		return true, nil
	}
	if host.Name() == "cuda" {
		return false, err
	}
	e.lockErr.Store(&lockError{err})
	return false, nil
}

type lockError struct{ err error }

// chooseHost decides, at first use.
func (e *Engine) chooseHost() driver.Host {
	e.hostOnce.Do(func() {
		if e.host == nil {
			e.host = defaultHost()
		}
		e.locking.Store(e.host.Name())
	})
	return e.host
}

func defaultHost() driver.Host {
	return soft.Host()
}
