package cuda

// This file has timing events.

import (
	"errors"
	"math"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// timingFlags is CU_EVENT_DEFAULT.
const timingFlags = 0

func (d *Device) NewTimingEvent() (driver.Event, error) { return d.newEvent(timingFlags) }

// Elapsed is as exact as the library's answer, a float of milliseconds.
func (d *Device) Elapsed(from, to driver.Event) (time.Duration, error) {
	call := &d.lib.eventElapsedTime
	f, err := d.begin(call)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(f.checkEvent(call, from), f.checkEvent(call, to)); err != nil {
		return 0, d.end(f, err)
	}
	bits, err := d.endWith(f, f.call(call, f.out(0), uintptr(from), uintptr(to)))
	ms := float64(math.Float32frombits(uint32(bits)))
	return time.Duration(math.Round(ms * float64(time.Millisecond))), err
}
