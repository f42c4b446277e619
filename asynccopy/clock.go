package asynccopy

// This file has what a stream infers of its events from their order, and the driver's events that are free.

import (
	"sync"

	"github.com/pintensor/pin/internal/driver"
)

// newEvent returns an Event with a driver's event, to be recorded at once.
func (s *Stream) newEvent() (*Event, error) {
	e, h := s.dev.events.event()
	if h == 0 {
		var err error
		if h, err = s.dev.takeEvent(); err != nil {
			return nil, err
		}
	}
	e.stream, e.handle, e.before = s, h, s.clock.Load()
	return e, nil
}

// recorded notes that e was recorded just now.
func (e *Event) recorded() { e.tick.Store(e.stream.clock.Add(1)) }

// saw notes that e is complete, and with it what was recorded before. If only e was recorded at the time that
// includes e itself.
func (s *Stream) saw(e *Event) {
	tick := e.tick.Load()
	if e.before == tick-1 {
		s.reached(tick)
	} else if tick != 0 {
		s.reached(e.before)
	}
}

// reached notes that what was recorded up to a tick is complete.
func (s *Stream) reached(tick int64) {
	for {
		seen := s.seen.Load()
		if tick <= seen || s.seen.CompareAndSwap(seen, tick) {
			return
		}
	}
}

// handles are the driver's events that are free. Nothing else is locked while its lock is held.
type handles struct {
	mu    sync.Mutex
	free  []driver.Event
	fresh []Event // an allocation makes several
}

// take returns 0 if there is none.
func (p *handles) take() driver.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pop()
}

func (p *handles) pop() driver.Event {
	n := len(p.free)
	if n == 0 {
		return 0
	}
	h := p.free[n-1]
	p.free = p.free[:n-1]
	return h
}

// event returns a new Event, and a handle for it, 0 if there is none.
func (p *handles) event() (*Event, driver.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fresh) == 0 {
		p.fresh = make([]Event, 15) // with what the allocator adds they fill its 1280 bytes
	}
	e := &p.fresh[0]
	p.fresh = p.fresh[1:]
	return e, p.pop()
}

// put takes a driver's event back. Work that was recorded before in it may still run: recording it again does not
// change what others already wait for.
func (p *handles) put(h driver.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, h)
}

// takeEvent returns a free driver's event, or a new one.
func (d *Device) takeEvent() (driver.Event, error) {
	if h := d.events.take(); h != 0 {
		return h, nil
	}
	h, err := d.drv.NewEvent()
	return h, d.fail(err)
}
