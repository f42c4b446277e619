package dataloader

// Legs: the epochs, or what is left of them, that a run goes through, one a loop.

// leg is the part of an epoch that one loop goes over. Its batches are at the places start to end-1 of its run,
// which counts on from one leg to the next.
type leg struct {
	epoch      int
	first      int   // number of the batch at place start, if not done already
	ahead      []int // numbers from first on that are done: an Unordered epoch was resumed
	count      int   // batches of the epoch
	start, end int
}

// newLeg returns what is left of an epoch of count batches from p on.
func newLeg(p position, count, start int) *leg {
	total := max(count-p.batch-len(p.ahead), 0)
	total = min(total, maxInt-start) // count may be the largest int: an order without an end
	return &leg{epoch: p.epoch, first: p.batch, ahead: p.ahead, count: count, start: start, end: start + total}
}

// numberAt returns the number in the epoch of the batch at a place.
func (g *leg) numberAt(place int) int {
	b := g.first + place - g.start
	for _, done := range g.ahead { // ascending
		if done <= b {
			b++
		}
	}
	return b
}

// isAt reports whether the leg is what a loop from p on goes over.
func (g *leg) isAt(p position) bool {
	return g.epoch == p.epoch && p.batch == 0 && len(p.ahead) == 0
}
