package asynccopy

// This file has the gate that stands between the calls on an object and its Close.

import "sync/atomic"

// gate counts the calls inside an object, so that closing it can refuse later ones and wait for those
// in progress. It takes no lock: every call on a device passes several. The zero value is open.
type gate struct {
	state atomic.Int64 // calls inside, and shutting
	empty atomic.Pointer[chan struct{}]
}

// shutting is set in gate.state by shut.
const shutting = 1 << 62

// enter admits a call unless the gate was shut. Each call admitted must leave.
func (g *gate) enter() bool {
	if g.state.Add(1)&shutting != 0 {
		g.leave()
		return false
	}
	return true
}

// again admits one more call for one that is inside already, even while the gate shuts.
func (g *gate) again() { g.state.Add(1) }

func (g *gate) leave() {
	if g.state.Add(-1) == shutting {
		g.empties()
	}
}

// empties tells those in shut. A call that is refused counts for a moment, so it may find the gate empty again.
func (g *gate) empties() {
	if c := g.empty.Swap(&closedChannel); c != &closedChannel {
		close(*c)
	}
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// shut refuses calls from now on and returns when none is inside. It reports whether it was the first.
func (g *gate) shut() (first bool) {
	c := make(chan struct{})
	if g.empty.CompareAndSwap(nil, &c) { // before shutting is set: who finds the gate empty closes it
		first = true
		if g.state.Or(shutting) == 0 {
			g.empties()
		}
	}
	<-*g.empty.Load()
	return first
}
