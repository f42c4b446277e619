package dataloader

// The samples of batches that a single worker begins one after the other.

import "slices"

// lookUps is how many samples are looked up at a time, for as many batches as that is. What a shuffle looks them up in is
// in the core's first cache then, out of which the copying of a batch drives it.
const lookUps = 1024

// lookedUp is the samples of batches in a row.
type lookedUp struct {
	leg      *leg
	first, n int // batches
	indices  []int
}

// batch returns the samples of a batch of a leg, looking them up if they are not known. They are valid until the next call.
// The plan's sampler is one of ours: another might panic, which would be of no batch yet.
func (k *lookedUp) batch(p *plan, g *leg, number int) []int {
	if k.leg != g || number < k.first || number >= k.first+k.n {
		left := p.share - number*p.batchSize // of the epoch
		k.leg, k.first, k.n = g, number, max(min(lookUps, left)/p.batchSize, 1)
		n := min(k.n*p.batchSize, left)
		k.indices = slices.Grow(k.indices[:0], n)[:n]
		p.fill(g.epoch, number, 0, k.indices)
	}
	return k.indices[(number-k.first)*p.batchSize:][:p.size(number)]
}
