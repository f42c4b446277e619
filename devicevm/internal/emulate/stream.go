package emulate

// This file has streams and events. Work runs as late as it may: when something waits for it, so that who uses the host's
// memory too early, or a value before it is there, is found.

import (
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// stream is a queue.
type stream struct {
	capture *capture // nil: it is not being captured
	queue   []func() error
	done    int // how many pieces of work ran
}

func (s *stream) issued() int { return s.done + len(s.queue) }

// mark is the work that an event stands for.
type mark struct {
	stream *stream // nil: none
	upTo   int
	asked  int // how often Query was
}

// reach runs the work of s up to a number. d.running is held.
func (d *device) reach(s *stream, upTo int) {
	for {
		d.mu.Lock()
		if s.done >= upTo {
			d.mu.Unlock()
			return
		}
		work, failed := s.queue[0], d.failed
		d.mu.Unlock()
		if failed == nil {
			failed = work()
		}
		d.mu.Lock()
		if d.failed == nil {
			d.failed = failed
		}
		s.queue = s.queue[1:]
		s.done++
		d.mu.Unlock()
	}
}

// await runs the work of a stream up to a number, and returns what has failed on the device.
func (d *device) await(s *stream, upTo int) error {
	if s != nil {
		d.running.Lock()
		d.reach(s, upTo)
		d.running.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// finish runs all work.
func (d *device) finish() error {
	d.mu.Lock()
	until := map[*stream]int{}
	for _, s := range d.streams {
		until[s] = s.issued()
	}
	d.mu.Unlock()
	for s, n := range until {
		if err := d.await(s, n); err != nil {
			return err
		}
	}
	return nil
}

// issue queues work, or adds it to what is captured.
func (d *device) issue(s driver.Stream, work func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := d.streams[s]
	switch {
	case st == nil:
		return failure("issue", driver.CodeInvalidHandle, "no stream %#x", s)
	case st.capture != nil:
		st.capture.add(work)
	default:
		st.queue = append(st.queue, work)
	}
	return nil
}

func (d *device) NewStream(int) (driver.Stream, error) {
	s := driver.Stream(d.create("stream"))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams[s] = new(stream)
	return s, nil
}

// DestroyStream runs what is left.
func (d *device) DestroyStream(s driver.Stream) error {
	if err := d.destroy("DestroyStream", "stream", uintptr(s)); err != nil {
		return err
	}
	d.mu.Lock()
	st := d.streams[s]
	delete(d.streams, s)
	n := st.issued()
	d.mu.Unlock()
	return d.await(st, n)
}

// uncaptured returns a stream that is not being captured.
func (d *device) uncaptured(call string, s driver.Stream) (*stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch st := d.streams[s]; {
	case st == nil:
		return nil, failure(call, driver.CodeInvalidHandle, "no stream %#x", s)
	case st.capture != nil:
		return nil, failure(call, driver.CodeCaptureUnsupported, "the stream is being captured")
	default:
		return st, nil
	}
}

func (d *device) SyncStream(s driver.Stream) error {
	st, err := d.uncaptured("SyncStream", s)
	if err != nil {
		return err
	}
	d.mu.Lock()
	n := st.issued()
	d.mu.Unlock()
	return d.await(st, n)
}

func (d *device) FreeAsync(p driver.DevicePtr, s driver.Stream) error {
	return d.issue(s, func() error { return d.free(p) })
}

func (d *device) NewEvent() (driver.Event, error) {
	e := driver.Event(d.create("event"))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events[e] = new(mark)
	return e, nil
}

func (d *device) NewTimingEvent() (driver.Event, error) { return d.NewEvent() }

func (d *device) DestroyEvent(e driver.Event) error {
	if err := d.destroy("DestroyEvent", "event", uintptr(e)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.events, e)
	return nil
}

func (d *device) Record(e driver.Event, s driver.Stream) error {
	st, err := d.uncaptured("Record", s)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.events[e] == nil {
		return failure("Record", driver.CodeInvalidHandle, "no event %#x", e)
	}
	d.events[e] = &mark{stream: st, upTo: st.issued()}
	return nil
}

// event returns what e stands for now.
func (d *device) event(call string, e driver.Event) (*mark, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.events[e]
	if m == nil {
		return nil, failure(call, driver.CodeInvalidHandle, "no event %#x", e)
	}
	return m, nil
}

// Query runs the work when it is asked for the third time.
func (d *device) Query(e driver.Event) (bool, error) {
	m, err := d.event("Query", e)
	if err != nil {
		return false, err
	}
	d.mu.Lock()
	m.asked++
	late := m.stream != nil && m.stream.done < m.upTo && m.asked < 3
	failed := d.failed
	d.mu.Unlock()
	if late {
		return false, failed
	}
	return true, d.await(m.stream, m.upTo)
}

func (d *device) SyncEvent(e driver.Event) error {
	m, err := d.event("SyncEvent", e)
	if err != nil {
		return err
	}
	return d.await(m.stream, m.upTo)
}

func (d *device) WaitEvent(s driver.Stream, e driver.Event) error {
	if _, err := d.uncaptured("WaitEvent", s); err != nil {
		return err
	}
	m, err := d.event("WaitEvent", e)
	if err != nil || m.stream == nil {
		return err
	}
	return d.issue(s, func() error { d.reach(m.stream, m.upTo); return nil })
}

func (d *device) Elapsed(driver.Event, driver.Event) (time.Duration, error) { return 0, nil }
