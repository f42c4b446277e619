package cuda

// This file makes a context current for calls.

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/pintensor/pin/internal/driver"
)

// push locks the goroutine to its thread and makes ctx current there. With an error it has done neither.
func (f *frame) push(ctx uintptr) error {
	runtime.LockOSThread()
	if err := f.call(&f.lib.ctxPushCurrent, ctx); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	return nil
}

// pop undoes push, and returns err or its own failure, or both. A context that can't be popped does no
// harm to this package, which always pushes its own, but the program should know.
func (f *frame) pop(err error) error {
	failed := f.call(&f.lib.ctxPopCurrent, f.out(0))
	runtime.UnlockOSThread()
	if failed == nil {
		return err
	}
	if err == nil {
		return failed
	}
	return errors.Join(err, failed)
}

// within runs calls with ctx current.
func (f *frame) within(ctx uintptr, calls func() error) error {
	if err := f.push(ctx); err != nil {
		return err
	}
	return f.pop(calls())
}

// Within calls call with the device's context current.
func (d *Device) Within(call func() error) (err error) {
	f, err := d.begin(&d.lib.ctxPushCurrent)
	if err != nil {
		return err
	}
	defer func() { err = d.end(f, err) }() // also where call panics
	return call()
}

// closing is set in Device.state by Close; the rest of it counts calls in flight.
const closing = 1 << 62

// begin returns a frame with the device's context current. Without an error, end must follow.
func (d *Device) begin(s *symbol) (*frame, error) {
	f, err := d.enter(s)
	if err != nil {
		return nil, err
	}
	if err := f.push(d.ctx); err != nil {
		f.free()
		d.leave()
		return nil, err
	}
	f.pushed = true
	return f, nil
}

// beginOn is begin for calls that take a stream or an event, which tells newer libraries the context: then it does
// not matter which one is current, nor on which thread the calls are made. Only one that was destroyed while it was
// current, which its thread keeps, is refused by every call: the frame then makes the device's context current.
func (d *Device) beginOn(s *symbol) (*frame, error) {
	if !d.lib.contextByHandle {
		return d.begin(s)
	}
	f, err := d.enter(s)
	if err == nil {
		f.spare = d.ctx
	}
	return f, err
}

// enter counts a call that is allowed.
func (d *Device) enter(s *symbol) (*frame, error) {
	if d.state.Add(1)&closing != 0 {
		d.leave()
		return nil, fmt.Errorf("%s: device %s: %w", s.name, d.name, driver.ErrClosed)
	}
	return newFrame(d.lib), nil
}

// end puts back what was current, and returns err or what went wrong in that.
func (d *Device) end(f *frame, err error) error {
	if f.pushed {
		err = f.pop(err)
	}
	f.free()
	d.leave()
	return err
}

// endWith is end for a call that makes something. It returns that, the first result, or 0 with an error:
// describing one leaves an address in the library in its place.
func (d *Device) endWith(f *frame, err error) (uintptr, error) {
	made := f.outs[0]
	if err := d.end(f, err); err != nil {
		return 0, err
	}
	return made, nil
}

// leave ends a call. Close waits for the last one.
func (d *Device) leave() {
	if d.state.Add(-1) == closing {
		d.idleOnce.Do(func() { close(d.idle) })
	}
}
