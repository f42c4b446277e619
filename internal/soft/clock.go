package soft

// This file has timing events: an operation behind the work that they stand for notes the time.

import (
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// stamp is when an operation ran, zero before. It is guarded by the core's lock. Each Record makes one, so
// that an event which is recorded again has no time until then.
type stamp struct{ at time.Time }

func (d *device) NewTimingEvent() (driver.Event, error) { return d.newEvent("NewTimingEvent", true) }

func (d *device) Elapsed(from, to driver.Event) (time.Duration, error) {
	if err := d.begin("Elapsed"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	var at [2]time.Time
	for i, handle := range [2]driver.Event{from, to} {
		e := d.events[handle]
		switch {
		case e == nil:
			return 0, badHandle("Elapsed", "event", uintptr(handle))
		case !e.timed:
			return 0, failure("Elapsed", driver.CodeInvalidHandle, "event %#x is not a timing event", uintptr(handle))
		case e.stamp == nil:
			return 0, failure("Elapsed", driver.CodeInvalidHandle, "event %#x was never recorded", uintptr(handle))
		case e.stamp.at.IsZero():
			return 0, failure("Elapsed", driver.CodeNotReady, "event %#x has not completed", uintptr(handle))
		}
		at[i] = e.stamp.at
	}
	return at[1].Sub(at[0]), nil
}
