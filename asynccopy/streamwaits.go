package asynccopy

// This file has what a stream waits for already, so that it need not be told twice. To make a stream wait costs a
// microsecond of the host, and as much of the device; a loop that feeds a device with small tensors would pay
// it for each, though one wait for the last of several is a wait for all: a stream runs in order.

import "sync"

// waits are the last things that a stream was made to wait for, by other stream. Of more streams than there is room
// for some are forgotten, which costs a wait.
type waits struct {
	mu   sync.Mutex
	of   [4]waited
	turn int // the next to be forgotten
}

// waited is what a stream waits for of another one. The other's pointer keeps it from being mistaken for a new one.
type waited struct {
	stream       *Stream
	before, tick int64 // the last event's
	ended        int64 // foreign uses that had ended when all work of the stream was waited for last
}

// find returns the entry of a stream, a new one if create is set, or nil. The lock is held.
func (w *waits) find(s *Stream, create bool) *waited {
	for i := range w.of {
		if w.of[i].stream == s {
			return &w.of[i]
		}
	}
	if !create {
		return nil
	}
	entry := &w.of[w.turn]
	w.turn = (w.turn + 1) % len(w.of)
	*entry = waited{stream: s}
	return entry
}

// include reports whether the wait for e is included in an earlier one: for e itself, or for an event that was
// recorded after it for certain.
func (w *waits) include(e *Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := w.find(e.stream, false)
	if had == nil {
		return false
	}
	tick := e.tick.Load()
	return tick != 0 && (tick <= had.before || tick == had.tick)
}

// add notes a wait for e.
func (w *waits) add(e *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if had, tick := w.find(e.stream, true), e.tick.Load(); tick > had.tick {
		had.before, had.tick = e.before, tick
	}
}

// includeUse reports whether the work of a use that has ended is included in an earlier wait.
func (w *waits) includeUse(u use) bool {
	if u.ended == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	had := w.find(u.stream, false)
	return had != nil && u.ended <= had.ended
}

// addAll notes a wait for all work that other had been given when so many uses had ended.
func (w *waits) addAll(other *Stream, ended int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := w.find(other, true)
	had.ended = max(had.ended, ended)
}
