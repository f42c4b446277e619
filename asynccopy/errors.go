package asynccopy

// This file has the errors.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pintensor/pin/internal/driver"
)

var (
	// ErrUnavailable: there is no such device, or no driver for it. The error's text says what was tried.
	ErrUnavailable = driver.ErrUnavailable

	// ErrOutOfMemory: the device has not enough memory, though pending work was awaited and everything
	// cached was given back.
	ErrOutOfMemory = driver.ErrOutOfMemory

	// ErrClosed: the device or the stream was closed.
	ErrClosed = errors.New("closed")

	// ErrReleased: the tensor was released before.
	ErrReleased = errors.New("already released")
)

// errLost is the result of work about which the driver could not be asked.
var errLost = errors.New("asynccopy: the device was closed, and its driver could not say whether the work was complete")

// DriverError is a driver call that failed, for errors.As. Call is the driver's name of it, such as
// "cuMemcpyHtoDAsync"; Code and Name are its result, such as 2 and "CUDA_ERROR_OUT_OF_MEMORY"; Text is what
// the driver says of that. Its method Sticky reports whether the device is lost.
type DriverError = driver.Error

// fail wraps an error that a driver call returned. A sticky one is remembered: the device's later calls
// return it without asking the driver.
func (d *Device) fail(err error) error {
	if err == nil {
		return nil
	}
	return d.wrap(err)
}

// wrap is apart from fail because its argument is on the heap, also where there is no error.
func (d *Device) wrap(err error) error {
	err = fmt.Errorf("asynccopy: %w", err)
	if sticky(err) {
		err = fmt.Errorf("%w: the device is lost to this process, which must end and start anew; "+
			"with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, the call that did it fails by itself", err)
		d.dead.CompareAndSwap(nil, &err)
	}
	return err
}

// sticky reports whether err says that the device's context is lost, with all work in it.
func sticky(err error) bool {
	if err == nil {
		return false
	}
	var failed *driver.Error
	return errors.As(err, &failed) && failed.Sticky()
}

// postpone keeps an error that no call can return, for the next call on the device.
func (d *Device) postpone(err error) {
	if err == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.postponed) < 16 { // the first ones say what happened
		d.postponed = append(d.postponed, err)
	}
	d.hasPostponed.Store(true)
}

// failure returns what a call must return instead of doing anything: the device's sticky error, or, once,
// what went wrong in the background.
func (d *Device) failure() error {
	if err := d.dead.Load(); err != nil {
		return *err
	}
	if !d.hasPostponed.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := distinct(d.postponed)
	d.postponed = nil
	d.hasPostponed.Store(false)
	return err
}

// distinct joins errors, each text once, and of sticky ones the first: all calls return those.
func distinct(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	var kept []error
	seen := make(map[string]bool)
	seenSticky := false
	for _, err := range errs {
		if err == nil || seen[err.Error()] || seenSticky && sticky(err) {
			continue
		}
		seen[err.Error()] = true
		seenSticky = seenSticky || sticky(err)
		kept = append(kept, err)
	}
	return errors.Join(kept...)
}

// named gives err the name of the call that returns it, unless it has the driver's.
func named(call string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "asynccopy: ") {
		return err
	}
	return fmt.Errorf("asynccopy: %s: %w", call, err)
}

// about says what err is about, in front of it and behind the package's name, which err may begin with.
func about(what string, err error) error {
	return fmt.Errorf("%s: %w", what, bare{err})
}

// missing is the error of using a tensor whose last copy failed, with that copy's error.
func missing(cause error) error { return about("the tensor's contents never arrived", cause) }

// bare is an error without the package's name in front.
type bare struct{ error }

func (b bare) Error() string { return strings.TrimPrefix(b.error.Error(), "asynccopy: ") }

func (b bare) Unwrap() error { return b.error }
