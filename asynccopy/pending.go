package asynccopy

// This file has the list of a stream's events that are not known to be complete: so that those which nobody waits for
// give their handles back, and Close and Synchronize settle all.

import "slices"

// tolerated is how many events a stream lists before it asks the driver about one, and again when half as many
// more are listed. To ask takes 0.5 µs, to issue the copy of a small tensor 3.
const tolerated = 32

// track lists an event that was recorded, or will be by its stage.
func (s *Stream) track(e *Event) {
	s.mu.Lock()
	s.pending = append(s.pending, e)
	n := len(s.pending)
	s.mu.Unlock()
	if n > tolerated && n%(tolerated/2) == 0 {
		s.tidy()
	}
}

// tidy takes the first events off the list, as far as they are known to be complete. If there are many left it asks the
// driver about the one in the middle, which tells of all before it; if that is not complete, about one nearer to the
// front, so that behind a device with much to do the list grows no longer than what that has to do.
func (s *Stream) tidy() {
	for _, e := range s.overdue() {
		if e == nil || !e.landed() {
			return
		}
		done, err := e.query()
		if done {
			s.overdue()
			return
		}
		s.dev.postpone(err)
	}
}

// overdue forgets the first events that are known to be complete, and returns two to ask about if there are many left.
func (s *Stream) overdue() (ask [2]*Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.pending) {
		if done, _ := s.pending[n].result(); !done {
			break
		}
		n++
	}
	s.pending = slices.Delete(s.pending, 0, n)
	if n := len(s.pending); n >= tolerated {
		ask = [2]*Event{s.pending[n/2], s.pending[tolerated/2-1]}
	}
	return ask
}

// unfinished returns the events that are listed.
func (s *Stream) unfinished() []*Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pending)
}
