package dataloader

// The plan of an epoch: which samples are in which batch of this rank. It is a pure function of the
// configuration, the epoch and the batch, so that batches can be read in any order and by anybody.

import "fmt"

type plan struct {
	samples     int // in the data set
	sampler     Sampler
	places      int // of the sampler
	share       int // places of this rank
	batchSize   int
	batches     int // of this rank; not with a BatchSampler
	rank, world int
	dealt       BatchSampler // nil: batches of batchSize places
	feed        feed         // not nil: the batches of a stream, however many
}

// planOf returns the plan of loading ds.
func planOf(ds Dataset, c *Config) (*plan, error) {
	if s, ok := ds.(streamed); ok {
		f, err := s.feed(c)
		if err != nil {
			return nil, err
		}
		return newStreamPlan(c, f), nil
	}
	samples := ds.Len()
	if samples < 0 {
		return nil, fmt.Errorf("dataloader: Dataset.Len() = %d: want >= 0", samples)
	}
	return newPlan(c, samples), nil
}

// newStreamPlan is the plan where a stream decides.
func newStreamPlan(c *Config, f feed) *plan {
	return &plan{samples: maxInt, places: maxInt, share: maxInt, batches: maxInt, batchSize: c.BatchSize,
		rank: c.Rank, world: max(c.WorldSize, 1), feed: f}
}

func newPlan(c *Config, samples int) *plan {
	p := &plan{samples: samples, batchSize: c.BatchSize, rank: c.Rank, world: max(c.WorldSize, 1), dealt: c.BatchSampler}
	if p.dealt != nil {
		return p
	}
	switch {
	case c.Sampler != nil:
		p.sampler = c.Sampler
	case c.Shuffle:
		p.sampler = shuffled{newPermutation(samples, c.Seed)}
	default:
		p.sampler = sequential(samples)
	}
	p.places = p.sampler.Len()
	p.share = shareOf(p.places, p.world, c.LastBatch == DropLast)
	p.batches = p.share / p.batchSize
	if p.share%p.batchSize > 0 && c.LastBatch != DropLast {
		p.batches++
	}
	return p
}

// shareOf divides n among world ranks: rounded up, to be filled from the start, or cut.
func shareOf(n, world int, cut bool) int {
	share := n / world
	if n%world > 0 && !cut {
		share++
	}
	return share
}

// len is the number of batches of an epoch.
func (p *plan) len(epoch int) int {
	if p.dealt == nil {
		return p.batches
	}
	return shareOf(max(p.dealt.Len(epoch), 0), p.world, false)
}

// size is the number of samples in batch b. With a BatchSampler only batch knows.
func (p *plan) size(b int) int {
	return min(p.batchSize, p.share-b*p.batchSize)
}

// maxSize is the largest size, or 0 where a BatchSampler decides.
func (p *plan) maxSize() int { return min(p.batchSize, p.share) }

// fill sets dst to the samples of batch b from the lo-th on.
func (p *plan) fill(epoch, b, lo int, dst []int) {
	if p.feed != nil {
		return // it has put them there
	}
	start := (b*p.batchSize+lo)*p.world + p.rank
	bulk, ok := p.sampler.(bulkSampler)
	if last := start + (len(dst)-1)*p.world; ok && last < p.places {
		bulk.indices(epoch, start, p.world, dst)
		return
	}
	for i := range dst {
		dst[i] = p.sampler.Index(epoch, (start+i*p.world)%p.places)
	}
}

// batch returns the samples of batch b of a BatchSampler, in the memory of dst where that is large enough.
func (p *plan) batch(epoch, b int, dst []int) []int {
	place := b*p.world + p.rank
	if p.world > 1 {
		place %= max(p.dealt.Len(epoch), 1) // filled up from the start
	}
	got := p.dealt.Batch(epoch, place, dst[:0])
	// The sampler may return memory of its own, which is not ours to change.
	return append(dst[:0], got...)
}

// outside is the error for an index that the data set doesn't have.
func (p *plan) outside(index int) error {
	if p.dealt != nil {
		return fmt.Errorf("BatchSampler %T: index %d: want 0 to %d", p.dealt, index, p.samples-1)
	}
	return fmt.Errorf("Sampler %T: index %d: want 0 to %d", p.sampler, index, p.samples-1)
}
