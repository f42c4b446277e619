package pintensor

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/cuda"
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
		e.keepContext()
		return true, nil
	}
	if host.Name() == "cuda" {
		return false, err
	}
	e.lockErr.Store(&refusal{err})
	return false, nil
}

// refusal is an error that Stats shows.
type refusal struct{ err error }

func (r *refusal) text() string {
	if r == nil {
		return ""
	}
	return r.err.Error()
}

// chooseHost decides, at first use.
func (e *Engine) chooseHost() driver.Host {
	e.hostOnce.Do(func() {
		if e.host == nil {
			host, err := cudaHost()
			if err != nil {
				e.noCUDA.Store(&refusal{err})
				host = soft.Host()
			}
			e.host = host
		}
		if err := e.topology.choose(e.host); err != nil {
			e.numaErr.Store(&refusal{fmt.Errorf("the device's NUMA node: %w", err)})
		}
		e.keeping.host, _ = e.host.(driver.Keeper)
		e.host = timedHost{e.host, &e.n.register, &e.n.unregister}
		e.locking.Store(e.host.Name())
	})
	return e.host
}

// keeping is what an engine has from its first page-locked memory until Close: the CUDA context that it is locked in. The
// program's devices have it too, but without one, and with nothing locked, it would go, and be made anew for the next
// tensor: which takes 150 ms on an H200.
type keeping struct {
	host    driver.Keeper // nil: nothing to keep
	begun   atomic.Bool
	release atomic.Pointer[func() error]
}

// keepContext keeps it. Memory is locked in it at this moment, so it is there.
func (e *Engine) keepContext() {
	if e.keeping.host == nil || !e.keeping.begun.CompareAndSwap(false, true) {
		return
	}
	release, err := e.keeping.host.Keep()
	if err != nil {
		e.note(fmt.Errorf("keeping the context that memory is page-locked in: %w", err))
		return
	}
	e.keeping.release.Store(&release)
	if e.closed.Load() { // Close may have looked before
		e.note(e.letContextGo())
	}
}

func (e *Engine) letContextGo() error {
	if release := e.keeping.release.Swap(nil); release != nil {
		return (*release)()
	}
	return nil
}

// cudaHost returns the CUDA driver's host, if there is a device that could need it.
func cudaHost() (driver.Host, error) {
	drv, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	n, err := drv.Devices()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fmt.Errorf("the CUDA driver shows no device: %w", driver.ErrUnavailable)
	}
	return drv.Host(), nil
}
