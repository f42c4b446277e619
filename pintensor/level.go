package pintensor

// This file has levels: how much there is of something, and the most that there was, counted by core.

import (
	"sync"
	"sync/atomic"
)

// # Counting by core
//
// New and Release change how much is lent, asked for and cached. One counter for all cores would cost them more than
// all else: its cache line goes from core to core, 60 ns each time. But a counter for each core alone would not know the
// most that there was of all together, which is what a program is sized by.
//
// So what is counted by core is the room below a top: a level is at its top less the room that all shelves have. To
// raise the level is to take from the room of one's own shelf, and to lower it is to add to it, which touches nothing
// that other cores write to. A shelf that lacks room takes it from others. Only if all of them together have too little
// does the top rise: when the level has never been as high. So the top is the peak.
//
// When many cores are near the peak at once they would take room from each other all the time. That shows in that they
// wait for each other to do so, and then the top is raised instead, above what the level has been: by the slack, which is
// bounded. The peak is then between the top less the slack and the top; the former is what is told. When the top is
// reached, or the level is read, what the slack was is known again.
//
// Room follows the blocks: it is taken from, and added to, the shelf where a block is cached or will be.

// level is how much there is of something, and the most that there was.
type level struct {
	rooms []*atomic.Int64 // by shelf; together they are what the level is below its top
	top   atomic.Int64    // changed with mu held

	mu    sync.Mutex // of who takes room from other shelves, or changes the top
	slack int64      // what the top may be above the peak
	peak  int64      // as far as it is above the top
}

// slackEach is how much slack there is for each shelf. To that comes a sixteenth of the top.
const slackEach = 64 << 10

// shut is what a shelf's room is less by while someone looks at all of them: then nobody takes from it, and what is
// added is found there later.
const shut = 1 << 62

// raise raises the level by n, in the account of a shelf.
func (l *level) raise(at uint8, n int64) { l.raiseTo(at, n, shut) }

// raiseTo is raise, unless it would make the level more than most.
func (l *level) raiseTo(at uint8, n, most int64) bool {
	if n == 0 {
		return true // also if the room is shut
	}
	if l.top.Load() <= most { // or there may be room above most
		own := l.rooms[at]
		for room := own.Load(); room >= n; room = own.Load() {
			if own.CompareAndSwap(room, room-n) {
				return true
			}
		}
	}
	return l.makeRoom(int(at), n, most)
}

// lower lowers the level by n.
func (l *level) lower(at uint8, n int64) { l.rooms[at].Add(n) }

// makeRoom is raiseTo with what other shelves have, or a higher top.
func (l *level) makeRoom(at int, n, most int64) bool {
	crowded := !l.mu.TryLock()
	if crowded {
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	return crowded && l.useSlack(n, most) || l.takeRoom(at, n, most)
}

// useSlack is raiseTo with a higher top, whatever room there is, if there may be as much slack. mu is held.
func (l *level) useSlack(n, most int64) bool {
	if top := l.top.Load(); top+n > most || l.slack+n > l.mostSlack() {
		return false
	}
	l.slack += n
	l.top.Add(n)
	return true
}

func (l *level) mostSlack() int64 { return slackEach*int64(len(l.rooms)) + l.top.Load()/16 }

// takeRoom is makeRoom as exact as it can be. mu is held.
func (l *level) takeRoom(at int, n, most int64) bool {
	top := l.top.Load()
	var found int64
	looked := 0
	for ; looked < len(l.rooms) && (found < n || top > most); looked++ {
		found += l.room(at + looked).Swap(-shut)
	}
	// If all are shut the level can't rise now: whatever is found, there is a moment in which that was all. So the top
	// is never said to be reached when it was not.
	for i := range looked {
		found += l.room(at+i).Swap(0) + shut
	}
	if top-found+n > most {
		l.room(at).Add(found)
		return false
	}
	if top > most { // it went above it once: without that room raiseTo is quick again
		l.peak = l.known()
		l.top.Store(most)
		l.slack = max(most-l.peak, 0)
		found -= top - most
	}
	if found < n {
		l.top.Add(n - found)
		l.slack = 0
		found = n
	}
	l.room(at + looked - 1).Add(found - n) // who had more keeps it
	return true
}

// room returns the room of a shelf, counted round.
func (l *level) room(i int) *atomic.Int64 { return l.rooms[i%len(l.rooms)] }

// now returns the level, which may have changed since.
func (l *level) now() int64 {
	now, _ := l.read()
	return max(now, 0)
}

func (l *level) usage(total int64) Usage {
	now, peak := l.read()
	return Usage{Current: max(now, 0), Peak: peak, Total: total}
}

// read reads the level and its peak. While others raise it here and lower it there it can seem to be less than nothing.
func (l *level) read() (now, peak int64) {
	l.mu.Lock() // none is shut
	defer l.mu.Unlock()
	now = l.top.Load()
	if l.slack > 0 {
		now -= l.allRoom()
		l.slack = min(l.slack, l.top.Load()-now)
		return now, l.known()
	}
	for _, r := range l.rooms {
		now -= r.Load()
	}
	return now, l.known()
}

// known returns what the peak was at least. mu is held.
func (l *level) known() int64 { return max(l.top.Load()-l.slack, l.peak) }

// allRoom returns what room there is at one moment. mu is held.
func (l *level) allRoom() (all int64) {
	var had [maxShelves]int64
	for i, r := range l.rooms {
		had[i] = r.Swap(-shut)
	}
	for i, r := range l.rooms {
		had[i] += r.Swap(0) + shut
		r.Add(had[i])
		all += had[i]
	}
	return all
}
