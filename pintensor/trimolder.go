package pintensor

// This file has TrimOlder: giving up what has not been needed for a while.

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// TrimOlder gives up the blocks that have been cached for at least d: those that were not lent since, and so
// are likely not to be needed soon. It returns how many bytes it freed, as Trim does; 0 is all that is cached. A
// segment of small tensors is as old as the block in it that was cached last.
// Since the block that came back last is lent first, what a program has too much of gets old.
//
// A program calls it now and then, from a time.Ticker or at the end of an epoch. To look at the clock is more
// than a tenth of the time of New and Release; so an engine does that only from the first TrimOlder on, for
// which all that is cached is new. TrimOlder waits for no copy.
func (e *Engine) TrimOlder(d time.Duration) (freed int64, err error) {
	if d < 0 {
		return 0, fmt.Errorf("pintensor: TrimOlder: d is %v, want at least 0", d)
	}
	if err := e.usable(); err != nil {
		return 0, fmt.Errorf("pintensor: TrimOlder: %w", err)
	}
	e.poll(pollAll)
	err = e.takeErr()
	freed, serr := e.giveUpStranded()
	err = errors.Join(err, serr)
	e.age.Do(e.beginAging)
	until := now() - d
	e.takeOlder(until, func(c cached) {
		if derr := e.discard(c); derr != nil {
			err = errors.Join(err, derr)
			return
		}
		freed += c.b.bytes()
	})
	if err != nil {
		err = fmt.Errorf("pintensor: TrimOlder: %w", err)
	}
	return freed, err
}

// takeOlder takes the segments out of the cache whose blocks were cached at until or before, a few at a time, so
// that the others can be lent while the driver is at those.
func (e *Engine) takeOlder(until time.Duration, then func(cached)) {
	for class := range carvedClasses {
		for again := e.carvedBytes[class].Load() > 0; again; {
			taken := e.takeWhole(class, 8*maxSegment, until, anySegment)
			for _, c := range taken {
				then(c)
			}
			again = len(taken) > 0
		}
	}
	for _, l := range e.lists(carvedClasses) {
		for c, ok := l.popOlder(until); ok; c, ok = l.popOlder(until) {
			then(c)
		}
	}
}

// started is when the clock of blocks began.
var started = time.Now()

// now is the time on it. It costs half of what time.Now does.
func now() time.Duration { return time.Since(started) }

// beginAging makes blocks know when they were cached.
func (e *Engine) beginAging() {
	e.aging.Store(true)
	for _, l := range e.lists(0) {
		l.mu.Lock() // whoever has it later sees aging
		for _, c := range l.free {
			c.b.at = now()
		}
		l.mu.Unlock()
	}
}

// lists returns the lists of the classes from the given one on, on all shelves.
func (e *Engine) lists(from int) []*freeList {
	var all []*freeList
	for i := range e.shelves {
		for class := from; class < shelfClasses; class++ {
			all = append(all, &e.shelves[i].lists[class])
		}
	}
	for i := range e.large {
		all = append(all, &e.large[i])
	}
	return all
}

// popOlder takes the oldest block out, if it was cached at until or before. It is at the list's start, since
// push appends. It takes one, so that the others can be lent while the driver is at it.
func (l *freeList) popOlder(until time.Duration) (c cached, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 || l.free[0].b.at > until {
		return cached{}, false
	}
	c = l.free[0]
	l.free = slices.Delete(l.free, 0, 1)
	c.b.eng.n.cached.lower(c.b.near, c.b.size)
	return c, true
}
