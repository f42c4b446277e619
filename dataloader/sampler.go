package dataloader

// Samplers: which sample is read at which place of an epoch.

import (
	"fmt"
	"math"
	"math/bits"
)

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

// sequential is the order 0, 1, 2, ...
type sequential int

func (s sequential) Len() int               { return int(s) }
func (s sequential) Index(epoch, k int) int { return k }

func (s sequential) indices(epoch, start, step int, dst []int) {
	for i := range dst {
		dst[i] = start + i*step
	}
}

// shuffled is a new random order of all samples each epoch.
type shuffled struct{ order *permutation }

func (s shuffled) Len() int { return s.order.n }

func (s shuffled) Index(epoch, k int) int {
	return s.order.order(epoch).at(uint64(s.order.n), uint64(k))
}

func (s shuffled) indices(epoch, start, step int, dst []int) {
	o, n := s.order.order(epoch), uint64(s.order.n)
	for i := range dst {
		dst[i] = o.at(n, uint64(start+i*step))
	}
}

// weighted draws with replacement by Vose's alias method: one table look-up a draw, whatever the
// number of weights.
type weighted struct {
	n         int
	seed      uint64
	threshold []uint64 // below it a draw of column i is i, else alias[i]
	alias     []int
}

// Weighted returns a Sampler of n draws an epoch, with replacement, in which sample i comes with
// probability weights[i] / sum(weights). The draws of each epoch are different and depend on seed alone.
//
// Weights must be finite, not negative, and not all zero. The sampler copies what it needs, 16 bytes a
// weight; a draw takes the same time for ten weights and for ten million. A sample drawn twice in an
// epoch has the same [Row.Rand] both times.
func Weighted(weights []float64, n int, seed uint64) (Sampler, error) {
	if n < 0 {
		return nil, fmt.Errorf("dataloader: Weighted: n = %d: want >= 0", n)
	}
	largest := 0.0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) { // the negation catches NaN
			return nil, fmt.Errorf("dataloader: Weighted: weights[%d] = %v: want a finite number >= 0", i, w)
		}
		largest = max(largest, w)
	}
	if largest == 0 {
		return nil, fmt.Errorf("dataloader: Weighted: %d weights, none above zero: want at least one", len(weights))
	}
	s := &weighted{n: n, seed: seed, threshold: make([]uint64, len(weights)), alias: make([]int, len(weights))}
	s.build(weights, largest)
	return s, nil
}

// build fills the alias table. Dividing by the largest weight first keeps the sum of huge weights finite.
func (s *weighted) build(weights []float64, largest float64) {
	sum := 0.0
	for _, w := range weights {
		sum += w / largest
	}
	// share[i] is sample i's probability in units of a column, 1/len(weights).
	share := make([]float64, len(weights))
	var small, large []int
	for i, w := range weights {
		share[i] = w / largest / sum * float64(len(weights))
		if share[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		i, j := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		s.threshold[i], s.alias[i] = fraction(share[i]), j
		if share[j] -= 1 - share[i]; share[j] < 1 {
			large, small = large[:len(large)-1], append(small, j)
		}
	}
	// What is left has share 1 but for rounding. A weight of zero must never be drawn, so it cannot be
	// left over as a full column.
	for _, i := range append(small, large...) {
		s.threshold[i], s.alias[i] = math.MaxUint64, i
		if weights[i] == 0 {
			s.threshold[i], s.alias[i] = 0, heaviest(weights)
		}
	}
}

func heaviest(weights []float64) int {
	best := 0
	for i, w := range weights {
		if w > weights[best] {
			best = i
		}
	}
	return best
}

// fraction maps [0, 1) to the whole of uint64.
func fraction(x float64) uint64 { return uint64(x * (1 << 63) * 2) }

func (s *weighted) Len() int { return s.n }

func (s *weighted) Index(epoch, k int) int {
	column := reduce(hash(s.seed, uint64(epoch), uint64(k), streamWeighted), len(s.alias))
	if hash(^s.seed, uint64(epoch), uint64(k), streamWeighted) < s.threshold[column] {
		return column
	}
	return s.alias[column]
}

// reduce maps a uniform word to [0, n) without the bias and cost of a division (Lemire).
func reduce(word uint64, n int) int {
	hi, _ := bits.Mul64(word, uint64(n))
	return int(hi)
}
