package asynccopy

// This file has how a pintensor.Engine sees the copies that use its memory.

import (
	"context"
	"time"

	"github.com/pintensor/pin/pintensor"
)

// flight is an Event as a pintensor.Completion. An engine asks about the copies of a block whenever the block is
// used again, about some of them several times, so a flight asks the driver only now and then.
type flight Event

// pause is how long nothing is asked about a stream of which a flight was not complete.
const pause = 10 * time.Microsecond

// Done reports whether the copy is complete, a moment late.
func (f *flight) Done() (bool, error) {
	e := (*Event)(f)
	if e.stage != nil || e.lost() {
		return e.Done()
	}
	if done, err := e.result(); done {
		return true, err
	}
	s, now := e.stream, time.Since(epoch)
	if now-time.Duration(s.asked.Load()) < pause {
		return false, nil
	}
	done, err := e.Done()
	if !done {
		s.asked.Store(int64(now))
	}
	return done, err
}

// Wait is Event.Wait.
func (f *flight) Wait(ctx context.Context) error { return (*Event)(f).Wait(ctx) }

// Follows reports whether c is a copy on the same stream that the driver was given before.
func (f *flight) Follows(c pintensor.Completion) bool {
	other, ok := c.(*flight)
	if !ok || f.stream != other.stream || f.stage != nil || other.stage != nil {
		return false
	}
	tick := other.tick.Load()
	return tick != 0 && f.tick.Load() != 0 && tick <= f.before
}

// epoch is what times are counted from, on the monotonic clock.
var epoch = time.Now()
