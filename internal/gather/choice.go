package gather

import (
	"math"
	"sync/atomic"
)

// choice finds out which way is the fastest: in rounds of a few calls of each, after which the one with the cheapest call
// is taken for many. A call is never cheaper than the work it does, and often dearer for reasons that are not its way's.
// The plain way is left only for one that is cheaper by more than such reasons explain.
//
// Calls of a round may run at the same time, and one that ends after its round counts for the next.
type choice struct {
	calls atomic.Uint64
	best  atomic.Int32
	least [ways]atomic.Int64 // cost of the cheapest call of the round, + 1; 0: none yet
}

const (
	trials = 16   // calls of each way in a round
	period = 8192 // calls from a round to the next
	chance = 16   // another way has to be cheaper by more than one part in so many
)

// next returns the way to take for a call, and whether its cost is to be noted.
func (c *choice) next() (way int, measured bool) {
	n := (c.calls.Add(1) - 1) % period
	switch {
	case n < ways*trials:
		return int(n % ways), true
	case n == ways*trials:
		c.decide()
	}
	return int(c.best.Load()), false
}

// note says what a call cost: the time of a row, in 1/1024 ns, so that calls of different lengths compare.
func (c *choice) note(way int, cost int64) {
	cost++
	for {
		least := c.least[way].Load()
		if least != 0 && least <= cost || c.least[way].CompareAndSwap(least, cost) {
			return
		}
	}
}

// decide ends a round.
func (c *choice) decide() {
	best, cost := plain, int64(math.MaxInt64)
	for way := range c.least {
		least := c.least[way].Swap(0)
		if way != plain {
			least += least / chance
		}
		if least != 0 && least < cost {
			best, cost = way, least
		}
	}
	c.best.Store(int32(best))
}
