package pintensor

// This file numbers the cores.

import (
	"runtime"
	"sync"
)

// place is a number that a core keeps for a while: a sync.Pool is kept by core, and so hands a core what it has put back
// itself. Two cores have the same number only if there are more cores than shelves.
type place struct {
	n uint32
	_ [28]byte // an object of its own, or its cleanup might never run
}

var places = sync.Pool{New: func() any { return newPlace() }}

// numbers are those that no place has. A core that had no use for its place for two cycles of the collector loses it,
// and gets another when it has: if numbers were not used again, several cores would soon have the same shelf.
var numbers struct {
	mu   sync.Mutex
	free []uint32
	next uint32 // all from here on are free too
}

func newPlace() *place {
	numbers.mu.Lock()
	n := numbers.next
	if last := len(numbers.free) - 1; last >= 0 {
		n = numbers.free[last]
		numbers.free = numbers.free[:last]
	} else {
		numbers.next++
	}
	numbers.mu.Unlock()
	p := &place{n: n}
	runtime.AddCleanup(p, func(n uint32) {
		numbers.mu.Lock()
		numbers.free = append(numbers.free, n)
		numbers.mu.Unlock()
	}, n)
	return p
}
