package asynccopy

// This file has Event: how completion is observed, and when a driver's event may be used again.
//
// A driver's event costs a microsecond to make, so a device keeps those that are free. An Event gives its one
// back when somebody has seen it completed and nobody is inside a driver call on it. An Event
// that the caller drops is not lost: its stream lists it until it is completed, and looks at one now
// and then (see Stream.track).
//
// A stream completes in order, so an event seen complete tells of those recorded before it, and the driver need
// not be asked about each. Two goroutines may record at once, in an order that only the driver knows. So a stream
// has a clock, which an event reads before it is recorded and advances after: those that had advanced it to what
// another read before were recorded first.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// Event is a point in a stream's work: complete when all work issued to the stream before it is. It needs
// no closing, and holds nothing of the device once it has been seen complete.
type Event struct {
	stream *Stream
	stage  *stage // the host's part of the work, nil if it has none

	before int64        // the stream's clock before the event was recorded
	tick   atomic.Int64 // and after; 0 while it was not

	mu     sync.Mutex
	handle driver.Event // 0 once retired
	keep   *kept        // host memory of no pintensor.Engine that the work uses
	inside int32        // driver calls that use handle now
	done   bool
	err    error // why the work failed; valid once done
}

// kept is a list of memory.
type kept struct {
	mem  []byte
	next *kept
}

// Done reports whether the work is complete, with the error it ended with if it failed. It never waits.
// When the driver can't say, Done reports false, and the next call on the device returns the driver's
// error.
func (e *Event) Done() (bool, error) {
	done, err := e.look()
	if !done && err != nil && e != nil {
		e.stream.dev.postpone(err)
		return false, nil
	}
	return done, err
}

// look is Done, but returns an error of asking too.
func (e *Event) look() (bool, error) {
	if err := e.check(); err != nil || e.stream == nil {
		return err == nil, err
	}
	if !e.landed() {
		return false, nil
	}
	if done, err := e.result(); done {
		return true, err
	}
	d := e.stream.dev
	if !d.gate.enter() {
		select {
		case <-d.gone:
			_, err := e.result()
			return true, err
		default:
			return false, nil // Close is waiting for this work
		}
	}
	defer d.gate.leave()
	return e.query()
}

// Wait returns when the work is complete, with the error it ended with if it failed. When ctx ends first
// Wait returns its error; the work goes on.
//
// With a ctx that can't end, Wait leaves the waiting to the driver, which has the least latency. Otherwise
// it asks the driver: without pause for 20 µs, which covers a small copy, then in intervals of an eighth of
// the time waited so far, at most 1 ms. That is at most 12 % late and uses hardly any CPU. If the driver
// can't say, Wait returns only when the work is complete, whatever becomes of ctx.
func (e *Event) Wait(ctx context.Context) error {
	if ctx == nil {
		return errNilContext("Wait")
	}
	if err := e.check(); err != nil || e.stream == nil {
		return err
	}
	if !e.landed() {
		if err := await(ctx, e.stage.landed); err != nil {
			return err
		}
	}
	if done, err := e.result(); done {
		return err
	}
	if ctx.Done() == nil {
		return e.block()
	}
	return e.poll(ctx)
}

// block waits in the driver, or for the device's Close.
func (e *Event) block() error {
	d := e.stream.dev
	if d.gate.enter() {
		defer d.gate.leave()
		return e.sync()
	}
	<-d.gone
	_, err := e.result()
	return err
}

// check refuses a nil Event. The zero Event, which no stream recorded, is complete.
func (e *Event) check() error {
	if e == nil {
		return errors.New("asynccopy: the event is nil")
	}
	return nil
}

func errNilContext(call string) error {
	return fmt.Errorf("asynccopy: %s: ctx is nil, want a context", call)
}

// spin is how long a wait asks the driver without pause.
const spin = 20 * time.Microsecond

func (e *Event) poll(ctx context.Context) error {
	var timer *time.Timer
	start := time.Now()
	for {
		done, err := e.look()
		switch {
		case done:
			return err
		case err != nil:
			d := e.stream.dev
			d.postpone(err)
			return e.block() // it can't be asked, so it has to be awaited
		case e.lost():
			return e.block()
		}
		waited := time.Since(start)
		if waited < spin {
			if err := ctx.Err(); err != nil {
				return err
			}
			runtime.Gosched()
			continue
		}
		pause := min(max(waited/8, spin), time.Millisecond)
		if timer == nil {
			timer = time.NewTimer(pause)
			defer timer.Stop()
		} else {
			timer.Reset(pause)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// result returns what is known without asking the driver.
func (e *Event) result() (done bool, err error) {
	e.mu.Lock()
	h := e.infer()
	done, err = e.done, e.err
	e.mu.Unlock()
	e.give(h)
	return done, err
}

// infer makes e done if a later event of its stream was seen complete, and returns its handle if that is free
// then. The lock is held.
func (e *Event) infer() driver.Event {
	if e.done || e.stream == nil {
		return 0
	}
	if tick := e.tick.Load(); tick == 0 || tick > e.stream.seen.Load() || !e.landed() {
		return 0
	}
	return e.settle(true, nil)
}

// give gives a handle back, 0 for none.
func (e *Event) give(h driver.Event) {
	if h != 0 {
		e.stream.dev.events.put(h)
	}
}

// String says of which stream e is, and what is known of the work without asking the driver.
func (e *Event) String() string {
	if e == nil || e.stream == nil {
		return "no event"
	}
	done, err := e.result()
	switch {
	case !done:
		return fmt.Sprintf("event of %v: not known to be complete", e.stream)
	case err != nil:
		return fmt.Sprintf("event of %v: failed: %v", e.stream, err)
	}
	return fmt.Sprintf("event of %v: complete", e.stream)
}

// landed reports whether the host's part is done.
func (e *Event) landed() bool {
	if e.stage == nil {
		return true
	}
	select {
	case <-e.stage.landed:
		return true
	default:
		return false
	}
}

// failed returns the error that the work ended with, as far as is known without asking the driver.
func (e *Event) failed() error {
	if done, err := e.result(); done {
		return err
	}
	if e.stage != nil && e.landed() {
		return e.stage.err
	}
	return nil
}

// begin lends e's handle for a driver call, which end must follow unless done. A handle of 0 that is not
// done means that e could not be recorded: only the end of its stream's work tells.
func (e *Event) begin() (h driver.Event, done bool) {
	e.mu.Lock()
	if free := e.infer(); e.done {
		e.mu.Unlock()
		e.give(free)
		return 0, true
	}
	e.inside++
	h = e.handle
	e.mu.Unlock()
	return h, false
}

// end takes a loan back, and retires e if it is done.
func (e *Event) end(done bool, err error) {
	if done && err == nil {
		e.stream.saw(e)
	}
	e.mu.Lock()
	e.inside--
	h := e.settle(done, err)
	e.mu.Unlock()
	e.give(h)
}

// retire makes e done, whether or not the driver was asked.
func (e *Event) retire(err error) {
	e.mu.Lock()
	h := e.settle(true, err)
	e.mu.Unlock()
	e.give(h)
}

// settle notes that e is done, and returns its handle if that is free now. The lock is held.
func (e *Event) settle(done bool, err error) driver.Event {
	if done && !e.done {
		e.done, e.keep = true, nil
		e.err = err
		if e.stage != nil && err == nil {
			e.err = e.stage.err
		}
	}
	if !e.done || e.inside > 0 {
		return 0
	}
	h := e.handle
	e.handle = 0
	return h
}

// lose gives the handle of an event that could not be recorded back. The work is complete when what is recorded
// later is.
func (e *Event) lose() {
	e.mu.Lock()
	h := e.handle
	e.handle = 0
	e.mu.Unlock()
	e.recorded()
	e.give(h)
}

// lost reports whether only the end of the stream's work tells that of e's.
func (e *Event) lost() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.done && e.handle == 0
}

// query asks the driver. The caller is inside a gate.
func (e *Event) query() (bool, error) {
	h, done := e.begin()
	if done {
		return e.result()
	}
	if h == 0 {
		e.end(false, nil)
		return false, nil
	}
	d := e.stream.dev
	done, err := d.drv.Query(h)
	err = d.fail(err)
	done = done || sticky(err)
	e.end(done, err)
	if done {
		return e.result()
	}
	return false, err
}

// sync waits in the driver. The caller is inside a gate. If the driver can't wait for the event it waits
// for the whole stream; an error that is not the work's outcome is returned only when it can't do that
// either.
func (e *Event) sync() error {
	h, done := e.begin()
	if done {
		_, err := e.result()
		return err
	}
	d := e.stream.dev
	var err error
	if h != 0 {
		err = d.fail(d.drv.SyncEvent(h))
	}
	if h == 0 || err != nil && !sticky(err) {
		d.postpone(err)
		err = d.fail(d.drv.SyncStream(e.stream.handle))
	}
	done = err == nil || sticky(err)
	e.end(done, err)
	if done {
		_, err = e.result()
	}
	return err
}
