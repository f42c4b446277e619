package cuda

// This file has streams and events, and how to wait for them.

import (
	"errors"
	"runtime"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

const (
	streamNonBlocking = 1 // CU_STREAM_NON_BLOCKING

	// CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING
	eventFlags = 1 | 2

	// A wait asks, then asks between other goroutines' turns, then sleeps: see "Waiting" in the package
	// comment. The figures are from one H200, where waking up takes 50 to 80 µs: that is a third of a copy
	// of 1 MiB, and 2 % of one that takes 4 ms.
	spin     = 50 * time.Microsecond
	patience = 4 * time.Millisecond
)

// Zero is the default stream to the library, but no stream to package driver.
func (f *frame) checkStream(s *symbol, stream driver.Stream) error {
	if stream == 0 {
		return f.refuse(s, driver.CodeInvalidHandle, "no stream 0x0")
	}
	return nil
}

func (f *frame) checkEvent(s *symbol, event driver.Event) error {
	if event == 0 {
		return f.refuse(s, driver.CodeInvalidHandle, "no event 0x0")
	}
	return nil
}

func (d *Device) NewStream(priority int) (driver.Stream, error) {
	f, err := d.begin(&d.lib.streamCreateWithPriority)
	if err != nil {
		return 0, err
	}
	s, err := d.endWith(f, f.call(&d.lib.streamCreateWithPriority, f.out(0), streamNonBlocking, uintptr(int32(priority))))
	return driver.Stream(s), err
}

func (d *Device) DestroyStream(s driver.Stream) error {
	return d.onStream(&d.lib.streamDestroy, s)
}

// onStream makes a call that takes a stream and nothing else.
func (d *Device) onStream(call *symbol, s driver.Stream) error {
	f, err := d.beginOn(call)
	if err != nil {
		return err
	}
	if err := f.checkStream(call, s); err != nil {
		return d.end(f, err)
	}
	return d.end(f, f.call(call, uintptr(s)))
}

// SyncStream asks for a while, then sleeps: see "Waiting" in the package comment. That the work is done
// does not give memory it freed to TrimPool; only cuStreamSynchronize does, which returns at once then.
func (d *Device) SyncStream(s driver.Stream) error {
	call := &d.lib.streamSynchronize
	err := d.wait(call, &d.lib.streamQuery, "stream", uintptr(s), func(f *frame) error { return d.sleep(f, s) })
	if err != nil {
		return err
	}
	return d.onStream(call, s)
}

// wait makes a call until query says done. It ends in sleep if it has to go on for long.
func (d *Device) wait(call, query *symbol, kind string, handle uintptr, sleep func(*frame) error) error {
	for start := time.Now(); ; {
		f, err := d.beginOn(call)
		if err != nil {
			return err
		}
		if handle == 0 {
			return d.end(f, f.refuse(call, driver.CodeInvalidHandle, "no %s 0x0", kind))
		}
		done, err := f.poll(query, handle, start)
		if done || err != nil {
			return d.end(f, err)
		}
		if time.Since(start) > patience {
			return d.end(f, sleep(f))
		}
		if err := d.end(f, nil); err != nil {
			return err
		}
		// Not within begin and end: a goroutine that is locked to its thread takes 10 µs to come back.
		runtime.Gosched()
	}
}

// poll queries at least once, and until spin has passed since start.
func (f *frame) poll(query *symbol, handle uintptr, start time.Time) (done bool, err error) {
	for {
		done, err = f.query(query, handle)
		if done || err != nil || time.Since(start) > spin {
			return done, err
		}
	}
}

// sleep blocks until what was issued to s has completed. cuStreamSynchronize would keep a core busy; an
// event can be waited for without, but making one needs the context.
func (d *Device) sleep(f *frame, s driver.Stream) error {
	if f.pushed {
		return f.sleep(s)
	}
	return f.within(d.ctx, func() error { return f.sleep(s) })
}

func (f *frame) sleep(s driver.Stream) error {
	lib := f.lib
	if err := f.call(&lib.eventCreate, f.out(0), eventFlags); err != nil {
		return err
	}
	e := f.outs[0]
	err := f.call(&lib.eventRecord, e, uintptr(s))
	if err == nil {
		err = f.call(&lib.eventSynchronize, e)
	}
	if failed := f.call(&lib.eventDestroy, e); err == nil {
		err = failed
	}
	return err
}

func (f *frame) query(query *symbol, handle uintptr) (done bool, err error) {
	switch code := f.code(query, handle); code {
	case success:
		return true, nil
	case notReady:
		return false, nil
	default:
		return false, f.failure(query, code)
	}
}

func (d *Device) NewEvent() (driver.Event, error) { return d.newEvent(eventFlags) }

func (d *Device) newEvent(flags uintptr) (driver.Event, error) {
	f, err := d.begin(&d.lib.eventCreate)
	if err != nil {
		return 0, err
	}
	e, err := d.endWith(f, f.call(&d.lib.eventCreate, f.out(0), flags))
	return driver.Event(e), err
}

func (d *Device) DestroyEvent(e driver.Event) error {
	call := &d.lib.eventDestroy
	f, err := d.beginOn(call)
	if err != nil {
		return err
	}
	if err := f.checkEvent(call, e); err != nil {
		return d.end(f, err)
	}
	return d.end(f, f.call(call, uintptr(e)))
}

func (d *Device) Record(e driver.Event, s driver.Stream) error {
	call := &d.lib.eventRecord
	f, err := d.beginOn(call)
	if err != nil {
		return err
	}
	if err := errors.Join(f.checkEvent(call, e), f.checkStream(call, s)); err != nil {
		return d.end(f, err)
	}
	return d.end(f, f.call(call, uintptr(e), uintptr(s)))
}

func (d *Device) Query(e driver.Event) (done bool, err error) {
	call := &d.lib.eventQuery
	f, err := d.beginOn(call)
	if err != nil {
		return false, err
	}
	if err := f.checkEvent(call, e); err != nil {
		return false, d.end(f, err)
	}
	done, err = f.query(call, uintptr(e))
	err = d.end(f, err)
	return done && err == nil, err
}

// SyncEvent asks for a while, then sleeps: see "Waiting" in the package comment.
func (d *Device) SyncEvent(e driver.Event) error {
	call := &d.lib.eventSynchronize
	return d.wait(call, &d.lib.eventQuery, "event", uintptr(e), func(f *frame) error { return f.call(call, uintptr(e)) })
}

func (d *Device) WaitEvent(s driver.Stream, e driver.Event) error {
	call := &d.lib.streamWaitEvent
	f, err := d.beginOn(call)
	if err != nil {
		return err
	}
	if err := errors.Join(f.checkStream(call, s), f.checkEvent(call, e)); err != nil {
		return d.end(f, err)
	}
	return d.end(f, f.call(call, uintptr(s), uintptr(e), 0))
}
