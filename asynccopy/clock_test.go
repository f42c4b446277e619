package asynccopy

// This file tests what is inferred of the order of events.

import "testing"

// TestClockOfRecordsAtOnce: of two events that are recorded at the same time, the one that advanced the clock first
// may have been the driver's second.
func TestClockOfRecordsAtOnce(t *testing.T) {
	_, s, _ := softStreams(t)
	event := func() *Event {
		t.Helper()
		e, err := s.newEvent()
		if err != nil {
			t.Fatal(err)
		}
		s.track(e)
		return e
	}
	done := func(e *Event) bool {
		done, _ := e.result()
		return done
	}
	earlier := event()
	earlier.recorded()
	first, second := event(), event()
	second.recorded()
	first.recorded()
	s.saw(first)
	if !done(earlier) || done(second) {
		t.Errorf("when one of two is complete: what came before both is %v, want true, the other %v, want false", done(earlier), done(second))
	}
	later := event()
	later.recorded()
	if done(later) || later.lost() {
		t.Error("an event is complete that nothing tells of")
	}
	s.saw(later)
	for name, e := range map[string]*Event{"first": first, "second": second, "later": later} {
		if !done(e) {
			t.Errorf("%s is not complete when what came after it is", name)
		}
	}
	// One that could not be recorded is complete when a later one is.
	lost := event()
	lost.lose()
	if done(lost) {
		t.Error("a lost event is complete at once")
	}
	end := event()
	end.recorded()
	s.saw(end)
	if !done(lost) {
		t.Error("a lost event is not complete when a later one is")
	}
}

// TestMemoryFreedBehindAClosingStream is for nobody but the device's own stream until that was seen to follow the
// other.
func TestMemoryFreedBehindAClosingStream(t *testing.T) {
	d, a, b := softStreams(t)
	x := used(t, a, a)
	size := d.memory.class(x.size)
	if !a.gate.enter() {
		t.Fatal("the stream is closed")
	}
	closed := make(chan error)
	go func() { closed <- a.Close() }()
	for a.gate.enter() { // until Close is waiting for the call
		a.gate.leave()
	}
	if err := x.Release(); err != nil {
		t.Error(err)
	}
	if l := d.memory.lane(size, d.own); len(l.free) != 1 || l.free[0].tick <= d.own.seen.Load() {
		t.Errorf("the device's own stream has %+v, seen %d", l.free, d.own.seen.Load())
	}
	if _, ok := d.memory.take(size, b); ok {
		t.Error("another stream got the memory")
	}
	a.gate.leave()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
