package asynccopy

// This file has the gate that stands between the calls on an object and its Close.

import "sync"

// gate counts the calls inside an object, so that closing it can refuse later ones and wait for those
// in progress. No lock is held while a call is inside. The zero value is open.
type gate struct {
	mu     sync.Mutex
	inside int
	closed bool
	empty  chan struct{} // made by the first shut; closed when the last call has left
}

// enter admits a call unless the gate was shut. Each call admitted must leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// again admits one more call for one that is inside already, even while the gate shuts.
func (g *gate) again() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// shut refuses calls from now on and returns when none is inside. It reports whether it was the first.
func (g *gate) shut() (first bool) {
	g.mu.Lock()
	if first = !g.closed; first {
		g.closed = true
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	g.mu.Unlock()
	<-g.empty
	return first
}
