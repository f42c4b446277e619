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
// So what is counted by core is the room below the peak: a level is at its peak less the room that all shelves have. To
// raise the level is to take from the room of one's own shelf, and to lower it is to add to it, which touches nothing
// that other cores write to. A shelf that lacks room takes it from others. Only if all of them together have too little
// does the peak rise: when the level has never been as high.
//
// Room follows the blocks: it is taken from, and added to, the shelf where a block is cached or will be.

// level is how much there is of something, and the most that there was.
type level struct {
	rooms []*atomic.Int64 // by shelf; together they are what the level is below its peak

	mu   sync.Mutex // of who takes room from other shelves, or changes the peak
	peak atomic.Int64
}

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
	if l.peak.Load() <= most { // or there may be room above most
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

// makeRoom is raiseTo with what other shelves have, or a higher peak.
func (l *level) makeRoom(at int, n, most int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	peak := l.peak.Load()
	var found int64
	looked := 0
	for ; looked < len(l.rooms) && (found < n || peak > most); looked++ {
		found += l.room(at + looked).Swap(-shut)
	}
	// If all are shut the level can't rise now: whatever is found, there is a moment in which that was all. So the peak
	// is never said to be higher than it was.
	for i := range looked {
		found += l.room(at+i).Swap(0) + shut
	}
	if peak-found+n > most {
		l.room(at).Add(found)
		return false
	}
	if found < n {
		l.peak.Add(n - found)
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
	peak = l.peak.Load()
	now = peak
	for _, r := range l.rooms {
		now -= r.Load()
	}
	return now, peak
}
