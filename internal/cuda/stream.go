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

	// CU_EVENT_DISABLE_TIMING. With CU_EVENT_BLOCKING_SYNC beside it the device raises an interrupt for each record:
	// on an H200 a small copy and its record then take the device 4.1 µs, not 3.2, and issuing them 0.3 µs more.
	eventFlags = 2

	// A wait asks, then asks between other goroutines' turns, then naps: see "Waiting" in the package
	// comment. The figures are from one H200, where to be woken takes a thread 50 to 80 µs: that is a third of a copy
	// of 1 MiB, and 2 % of one that takes 4 ms.
	spin       = 50 * time.Microsecond
	patience   = 4 * time.Millisecond
	longestNap = time.Millisecond
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

// SyncStream waits as "Waiting" in the package comment says. That the work is done does not give memory it freed to
// TrimPool; only cuStreamSynchronize does, which returns at once then.
func (d *Device) SyncStream(s driver.Stream) error {
	call := &d.lib.streamSynchronize
	if err := d.wait(&d.lib.streamQuery, "stream", uintptr(s)); err != nil {
		return err
	}
	return d.onStream(call, s)
}

// wait asks until query says done.
func (d *Device) wait(query *symbol, kind string, handle uintptr) error {
	for start := time.Now(); ; {
		f, err := d.beginOn(query)
		if err != nil {
			return err
		}
		if handle == 0 {
			return d.end(f, f.refuse(query, driver.CodeInvalidHandle, "no %s 0x0", kind))
		}
		done, err := f.poll(query, handle, start)
		if done || err != nil {
			return d.end(f, err)
		}
		if err := d.end(f, nil); err != nil {
			return err
		}
		// Not within begin and end: a goroutine that is locked to its thread takes 10 µs to come back.
		if waited := time.Since(start); waited > patience {
			time.Sleep(min(waited/64, longestNap))
		} else {
			runtime.Gosched()
		}
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

// SyncEvent waits as "Waiting" in the package comment says.
func (d *Device) SyncEvent(e driver.Event) error {
	return d.wait(&d.lib.eventQuery, "event", uintptr(e))
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
