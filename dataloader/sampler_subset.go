package dataloader

// Samplers of some of a data set's samples.

import (
	"fmt"
	"slices"
)

// FromIndices returns the Sampler of the given samples, in this order, in every epoch; one may come more than
// once. It keeps a copy. Indices must be >= 0; one that the data set does not have is an error of its batch.
func FromIndices(indices []int) (Sampler, error) {
	if err := checkIndices("FromIndices", indices); err != nil {
		return nil, err
	}
	return listed(slices.Clone(indices)), nil
}

// SubsetRandom returns the Sampler of the given samples, in a new random order each epoch: PyTorch's
// SubsetRandomSampler. It keeps a copy. Indices must be >= 0; one that the data set does not have is an error
// of its batch. To keep [Config.Shuffle] for the order and choose samples all the same, see [Subset].
func SubsetRandom(indices []int, seed uint64) (Sampler, error) {
	if err := checkIndices("SubsetRandom", indices); err != nil {
		return nil, err
	}
	return &subsetRandom{slices.Clone(indices), newPermutation(len(indices), seed)}, nil
}

func checkIndices(call string, indices []int) error {
	for k, i := range indices {
		if i < 0 {
			return fmt.Errorf("dataloader: %s: indices[%d] = %d: want >= 0", call, k, i)
		}
	}
	return nil
}

type listed []int

func (s listed) Len() int               { return len(s) }
func (s listed) Index(epoch, k int) int { return s[k] }

type subsetRandom struct {
	of    []int
	order *permutation
}

func (s *subsetRandom) Len() int { return len(s.of) }

func (s *subsetRandom) Index(epoch, k int) int {
	return s.of[s.order.order(epoch).at(uint64(len(s.of)), uint64(k))]
}

func (s *subsetRandom) indices(epoch, start, step int, dst []int) {
	o, n := s.order.order(epoch), uint64(len(s.of))
	for i := range dst {
		dst[i] = s.of[o.at(n, uint64(start+i*step))]
	}
}
