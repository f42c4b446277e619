package soft

// This file has events.

import "github.com/pintensor/pin/internal/driver"

// patience is how many Query calls in a row a late device answers with "not yet".
const patience = 3

// event is a mark that can be set again.
type event struct {
	mark  mark
	polls int // since Record
	timed bool
	stamp *stamp // of the latest Record, of a timing event
}

func (e *event) record(s *stream) {
	if e.timed {
		e.stamp = new(stamp)
		s.core.issue(s, operation{kind: opStamp, stamp: e.stamp})
	}
	e.mark = mark{s, s.issued}
	e.polls = 0
}

func (d *device) NewEvent() (driver.Event, error) { return d.newEvent("NewEvent", false) }

func (d *device) newEvent(method string, timed bool) (driver.Event, error) {
	if err := d.begin(method); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	d.lastID++
	id := driver.Event(d.lastID)
	d.events[id] = &event{timed: timed}
	return id, nil
}

func (d *device) DestroyEvent(e driver.Event) error {
	if err := d.beginRelease("DestroyEvent"); err != nil {
		return err
	}
	if d.events[e] == nil {
		return d.endRelease(badHandle("DestroyEvent", "event", uintptr(e)))
	}
	delete(d.events, e)
	return d.endRelease(nil)
}

func (d *device) Record(e driver.Event, s driver.Stream) error {
	if err := d.begin("Record"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	st, ev, err := d.streamAndEvent("Record", s, e)
	if err != nil {
		return err
	}
	if err := st.refuse("Record"); err != nil {
		return err
	}
	ev.record(st)
	return nil
}

// Query waits for nothing, but on a late device it runs the work when it has been asked often enough.
func (d *device) Query(e driver.Event) (done bool, err error) {
	if err := d.begin("Query"); err != nil {
		return false, err
	}
	defer d.mu.Unlock()
	ev := d.events[e]
	if ev == nil {
		return false, badHandle("Query", "event", uintptr(e))
	}
	m := ev.mark
	if m.completed() {
		return true, nil
	}
	if !d.config.Late {
		return false, nil
	}
	if ev.polls++; ev.polls <= patience {
		return false, nil
	}
	m.stream.reach(m.upTo)
	return d.failed == nil, asError(d.failed)
}

func (d *device) SyncEvent(e driver.Event) error {
	if err := d.begin("SyncEvent"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	ev := d.events[e]
	if ev == nil {
		return badHandle("SyncEvent", "event", uintptr(e))
	}
	if m := ev.mark; m.stream != nil {
		m.stream.reach(m.upTo)
	}
	return asError(d.failed)
}

func (d *device) SyncStream(s driver.Stream) error {
	if err := d.begin("SyncStream"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	st := d.streams[s]
	if st == nil {
		return badHandle("SyncStream", "stream", uintptr(s))
	}
	if err := st.refuse("SyncStream"); err != nil {
		return err
	}
	st.reach(st.issued)
	return asError(d.failed)
}

func (d *device) WaitEvent(s driver.Stream, e driver.Event) error {
	foreign, elsewhere := d.markElsewhere(e)
	if err := d.begin("WaitEvent"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	st := d.streams[s]
	if st == nil {
		return badHandle("WaitEvent", "stream", uintptr(s))
	}
	m := foreign
	if ev := d.events[e]; ev != nil {
		m = ev.mark
	} else if !elsewhere {
		return badHandle("WaitEvent", "event", uintptr(e))
	}
	if err := st.refuse("WaitEvent"); err != nil {
		return err
	}
	if m.stream == nil || m.stream == st || m.stream.core == d.core && m.completed() {
		return nil // a stream is in order with itself
	}
	d.issue(st, operation{kind: opWait, on: m})
	return nil
}

// streamAndEvent looks two handles up.
func (d *device) streamAndEvent(method string, s driver.Stream, e driver.Event) (*stream, *event, error) {
	st, ev := d.streams[s], d.events[e]
	if st == nil {
		return nil, nil, badHandle(method, "stream", uintptr(s))
	}
	if ev == nil {
		return nil, nil, badHandle(method, "event", uintptr(e))
	}
	return st, ev, nil
}
