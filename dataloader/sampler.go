package dataloader

// Samplers: which sample is read at which place of an epoch. The plain orders: as they are, and shuffled.

import "fmt"

// Sampler is the order of an epoch. Index must be pure: it returns the sample, from 0 to the data set's
// length - 1, at place k (0 <= k < Len()) of the given epoch, the same each time it is asked, from any
// goroutine. That is what makes resuming free and the order the same for any number of workers. Len is
// asked once, by [New]; it may differ from the data set's length.
type Sampler interface {
	Len() int
	Index(epoch, k int) int
}

// BatchSampler says which samples make up which batch. Both methods must be pure and safe for
// concurrent use, as [Sampler] explains. Len is the number of batches of an epoch. Batch appends the
// samples of batch b (0 <= b < Len(epoch)) to dst, which has length 0, and returns it. A batch without
// samples is left out of the loop.
type BatchSampler interface {
	Len(epoch int) int
	Batch(epoch, b int, dst []int) []int
}

// bulkSampler is a Sampler that fills many places faster than one by one: place start, start+step, ...
type bulkSampler interface {
	indices(epoch, start, step int, dst []int)
}

// Sequential returns the Sampler of the order 0, 1, ..., n-1 in every epoch, PyTorch's SequentialSampler:
// what a Loader does without Config.Shuffle, for use in samplers made of samplers such as [Batched]. n must
// be >= 0.
func Sequential(n int) (Sampler, error) {
	if n < 0 {
		return nil, fmt.Errorf("dataloader: Sequential: n = %d: want >= 0", n)
	}
	return sequential(n), nil
}

// sequential is the order 0, 1, 2, ...
type sequential int

func (s sequential) Len() int               { return int(s) }
func (s sequential) Index(epoch, k int) int { return k }

func (s sequential) indices(epoch, start, step int, dst []int) {
	for i := range dst {
		dst[i] = start + i*step
	}
}

// Random returns the Sampler of a new random order of 0, 1, ..., n-1 in every epoch, each of them once:
// PyTorch's RandomSampler. It is what a Loader does with Config.Shuffle and the same seed, for use in
// samplers made of samplers such as [Batched]. It takes no memory that grows with n, which must be >= 0.
func Random(n int, seed uint64) (Sampler, error) {
	if n < 0 {
		return nil, fmt.Errorf("dataloader: Random: n = %d: want >= 0", n)
	}
	return shuffled{newPermutation(n, seed)}, nil
}

// shuffled is a new random order of all samples each epoch.
type shuffled struct{ order *permutation }

func (s shuffled) Len() int { return s.order.n }

func (s shuffled) Index(epoch, k int) int {
	return s.order.order(epoch).at(uint64(s.order.n), uint64(k))
}

func (s shuffled) indices(epoch, start, step int, dst []int) {
	s.order.order(epoch).fill(uint64(s.order.n), start, step, dst)
}
