package pintensor

// This file has the figures that an engine keeps.

import "sync/atomic"

// Usage is an amount of memory over the life of an engine, in bytes.
type Usage struct {
	Current int64 `json:"current"` // now
	Peak    int64 `json:"peak"`    // the largest Current so far
	Total   int64 `json:"total"`   // everything that was ever added
}

// Stats is what an engine did and holds. The figures are read one after another, so those of an
// engine in use may be a few operations apart. Where many goroutines lend and release at once, millions of times a second,
// the peaks of Requested, Lent and Cached may be a sixteenth, and 64 KiB for each core, less than they were.
//
// It prints as one line, is groups of figures to log/slog, and encodes as JSON, so that a program
// publishes it with
//
//	expvar.Publish("pinned", expvar.Func(func() any { return engine.Stats() }))
type Stats struct {
	Requested  Usage `json:"requested"`  // bytes that New, Empty, Pin and Alloc were asked for, until released
	Lent       Usage `json:"lent"`       // bytes of the blocks lent for them: Requested and what rounding to block sizes adds
	Cached     Usage `json:"cached"`     // bytes of blocks ready to be lent: released, reserved, or beside others in a segment
	InFlight   Usage `json:"in_flight"`  // bytes of blocks, lent or released, that copies are reading or writing
	Registered Usage `json:"registered"` // bytes that are page-locked: blocks, and the pages of tensors given to Register
	InPlace    Usage `json:"in_place"`   // bytes among Registered of tensors given to Register: whole pages, each counted once
	Pageable   Usage `json:"pageable"`   // bytes of blocks that could not be page-locked and are ordinary memory; see Locked

	Allocated int64 `json:"allocated"` // blocks among Lent that Alloc lent: results of arithmetic, which nobody has to release

	Cold      int64 `json:"cold"`       // times that memory was made, for a block or a segment of small ones: a call to the driver each
	Warm      int64 `json:"warm"`       // blocks that came from the cache: lent before, reserved, or made with others
	Reclaimed int64 `json:"reclaimed"`  // blocks that the garbage collector gave back, and registrations that it undid
	Forgotten int64 `json:"forgotten"`  // of those, made by New, Empty, Pin or Register: each is a missing Release, or call of unregister
	LostHolds int64 `json:"lost_holds"` // holds dropped with their memory, which nobody can end: each is a missing Until or Done
	Waits     int64 `json:"waits"`      // times that a call had to wait for a copy, because of the limit or a refusing driver
	Trims     int64 `json:"trims"`      // blocks, or segments of small ones, given up: by Trim, TrimOlder, Close, WithMaxCached, or for others

	Leaving int64 `json:"leaving"` // what the garbage collector found that is in the driver's hands now, or waits for it, to be unregistered

	RegisterCalls   Calls `json:"register_calls"`   // calls of the driver that page-lock memory, and the time they took
	UnregisterCalls Calls `json:"unregister_calls"` // those that undo it

	Unlocked  int64  `json:"unlocked"`             // blocks among Cold that could not be page-locked and are ordinary memory
	Locking   string `json:"locking"`              // how memory is page-locked: "cuda", "mlock", or "" when nothing was asked for yet
	NoCUDA    string `json:"no_cuda,omitempty"`    // why that is not "cuda"; "" if it is, or nothing was asked for yet
	NUMANode  int    `json:"numa_node"`            // where new memory is, -1 where the system puts it; see WithNUMANode
	NUMAError string `json:"numa_error,omitempty"` // why it may be elsewhere; "" if nothing failed
	LockError string `json:"lock_error,omitempty"` // why the latest block could not be page-locked, and the remedy; "" if none failed
}

// gauge keeps a Usage, on a cache line of its own. It serves what changes seldom; see level.go for what doesn't.
type gauge struct {
	current, peak, total atomic.Int64
	_                    [40]byte
}

func (g *gauge) add(n int64) {
	g.total.Add(n)
	now := g.current.Add(n)
	for peak := g.peak.Load(); now > peak && !g.peak.CompareAndSwap(peak, now); peak = g.peak.Load() {
	}
}

func (g *gauge) lower(n int64) { g.current.Add(-n) }

func (g *gauge) usage() Usage {
	return Usage{Current: g.current.Load(), Peak: g.peak.Load(), Total: g.total.Load()}
}

// counters is what Stats is made from, beside what the lists count.
type counters struct {
	requested, lent, cached                 level // their totals are counted in the lists, see cache.go
	inFlight, registered, pageable, inPlace gauge
	coldRequested, coldLent                 atomic.Int64 // bytes lent of blocks that no list ever had
	cold, reclaimed, waits, trims, unlocked atomic.Int64
	allocated                               atomic.Int64 // blocks lent by Alloc now
	forgotten, lostHolds                    atomic.Int64
	register, unregister                    callClock
}

// Stats returns the engine's figures, zeros for a nil Engine. It completes finished copies first and does not block.
func (e *Engine) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	e.poll(pollAll)
	s := Stats{
		Requested: e.n.requested.usage(e.n.coldRequested.Load()), Lent: e.n.lent.usage(e.n.coldLent.Load()), Cached: e.n.cached.usage(0),
		InFlight: e.n.inFlight.usage(), Registered: e.n.registered.usage(), InPlace: e.n.inPlace.usage(), Pageable: e.n.pageable.usage(),
		Cold: e.n.cold.Load(), Reclaimed: e.n.reclaimed.Load(),
		Forgotten: e.n.forgotten.Load(), LostHolds: e.n.lostHolds.Load(), Allocated: e.n.allocated.Load(),
		Waits: e.n.waits.Load(), Trims: e.n.trims.Load(), Unlocked: e.n.unlocked.Load(),
		Leaving:       e.leaving.n.Load(),
		RegisterCalls: e.n.register.calls(), UnregisterCalls: e.n.unregister.calls(),
	}
	s.Lent.Peak = max(s.Lent.Peak, s.Requested.Peak) // as what is lent was never less
	for _, l := range e.lists(0) {
		l.addTo(&s)
	}
	s.Locking, _ = e.locking.Load().(string)
	s.NUMANode = noNode
	if s.Locking != "" { // the host was chosen, and with it the node
		s.NUMANode = e.topology.node
	}
	s.NUMAError = e.numaErr.Load().text()
	s.NoCUDA, s.LockError = e.noCUDA.Load().text(), e.lockErr.Load().text()
	return s
}
