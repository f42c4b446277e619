package pintensor

// This file has the time that the driver takes, which is most of what new pinned memory costs.

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// Calls is what an engine's calls of one function of the driver took. Several calls may run at a time, so
// Time may grow faster than the clock.
type Calls struct {
	Count  int64         `json:"count"`   // calls that have returned, failed ones included
	Failed int64         `json:"failed"`  // those of them that returned an error
	Time   time.Duration `json:"time_ns"` // of all of them together
	Max    time.Duration `json:"max_ns"`  // of the longest
}

// callClock keeps a Calls.
type callClock struct{ count, failed, total, max atomic.Int64 }

// time runs call and counts it.
func (c *callClock) time(call func() error) error {
	begun := time.Now()
	err := call()
	took := int64(time.Since(begun))
	for longest := c.max.Load(); took > longest && !c.max.CompareAndSwap(longest, took); longest = c.max.Load() {
	}
	c.total.Add(took)
	if err != nil {
		c.failed.Add(1)
	}
	c.count.Add(1)
	return err
}

func (c *callClock) calls() Calls {
	return Calls{c.count.Load(), c.failed.Load(), time.Duration(c.total.Load()), time.Duration(c.max.Load())}
}

// timedHost is a host whose calls are timed. To look at the clock is nothing beside them.
type timedHost struct {
	driver.Host
	register, unregister *callClock
}

func (h timedHost) Register(p unsafe.Pointer, n int64) error {
	return h.register.time(func() error { return h.Host.Register(p, n) })
}

func (h timedHost) Unregister(p unsafe.Pointer) error {
	return h.unregister.time(func() error { return h.Host.Unregister(p) })
}
