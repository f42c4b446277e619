package dataloader

// Draws with replacement: each sample as likely as the others, or by weights.

import (
	"fmt"
	"math"
	"math/bits"
)

// RandomWithReplacement returns a Sampler of draws draws an epoch from 0, 1, ..., n-1, each as likely as the
// others every time: PyTorch's RandomSampler(replacement=True, num_samples=draws). Epochs differ, and depend
// on seed alone. It takes no memory that grows with n or draws. draws must be >= 0, and n at least 1 unless
// draws is 0. A sample drawn twice in an epoch has the same [Row.Rand] both times.
func RandomWithReplacement(n, draws int, seed uint64) (Sampler, error) {
	switch {
	case draws < 0:
		return nil, fmt.Errorf("dataloader: RandomWithReplacement: draws = %d: want >= 0", draws)
	case n < 0 || n == 0 && draws > 0:
		return nil, fmt.Errorf("dataloader: RandomWithReplacement: n = %d: want at least one sample to draw from", n)
	}
	return &replacement{n, draws, seed}, nil
}

type replacement struct {
	n, draws int
	seed     uint64
}

func (s *replacement) Len() int { return s.draws }

func (s *replacement) Index(epoch, k int) int {
	return reduce(hash(s.seed, uint64(epoch), uint64(k), streamReplacement), s.n)
}

func (s *replacement) indices(epoch, start, step int, dst []int) {
	for i := range dst {
		dst[i] = s.Index(epoch, start+i*step)
	}
}

// weighted draws with replacement by Vose's alias method: one table look-up a draw, whatever the
// number of weights.
type weighted struct {
	n       int
	seed    uint64
	columns []column
}

// column is one of as many equal parts of the whole probability as there are weights. Its two numbers are
// side by side because a draw from a table larger than the cache costs what fetching it costs.
type column struct {
	threshold uint64 // below it a draw of column i is i, else alias
	alias     int
}

// Weighted returns a Sampler of n draws an epoch, with replacement, in which sample i comes with
// probability weights[i] / sum(weights): PyTorch's WeightedRandomSampler, for any number of weights. The
// draws of each epoch are different and depend on seed alone.
//
// Weights must be finite, not negative, and not all zero. The sampler copies what it needs, 16 bytes a
// weight, and 8 more while it is made; a draw takes one look-up for ten weights and for a hundred million.
// A sample drawn twice in an epoch has the same [Row.Rand] both times.
func Weighted(weights []float64, n int, seed uint64) (Sampler, error) {
	if n < 0 {
		return nil, fmt.Errorf("dataloader: Weighted: n = %d: want >= 0", n)
	}
	heaviest := 0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 0) { // the negation catches NaN
			return nil, fmt.Errorf("dataloader: Weighted: weights[%d] = %v: want a finite number >= 0", i, w)
		}
		if w > weights[heaviest] {
			heaviest = i
		}
	}
	if len(weights) == 0 || weights[heaviest] == 0 {
		return nil, fmt.Errorf("dataloader: Weighted: %d weights, none above zero: want at least one", len(weights))
	}
	s := &weighted{n: n, seed: seed, columns: make([]column, len(weights))}
	s.build(weights, heaviest)
	return s, nil
}

// build fills the alias table. Dividing by the largest weight first keeps the sum of huge weights finite.
func (s *weighted) build(weights []float64, heaviest int) {
	largest, sum := weights[heaviest], 0.0
	for _, w := range weights {
		sum += w / largest
	}
	// The share of sample i is its probability in units of a column. Until its column is done, its bits are
	// in threshold: tens of millions of weights need no second table.
	share := func(i int) float64 { return math.Float64frombits(s.columns[i].threshold) }
	set := func(i int, v float64) { s.columns[i].threshold = math.Float64bits(v) }
	// Two stacks in one array, of those below one from its start up, of the others from its end down. Each
	// step takes one off for good, so they never meet.
	open := make([]int, len(weights))
	small, large := 0, len(open)
	push := func(i int) {
		if share(i) < 1 {
			open[small] = i
			small++
		} else {
			large--
			open[large] = i
		}
	}
	for i, w := range weights {
		set(i, w/largest/sum*float64(len(weights)))
		push(i)
	}
	for small > 0 && large < len(open) {
		small--
		i, j := open[small], open[large]
		large++
		set(j, share(j)-(1-share(i)))
		s.columns[i] = column{fraction(share(i)), j}
		push(j)
	}
	// What is left has share 1 but for rounding. A weight of zero must never be drawn, so it cannot be
	// left over as a full column.
	for _, left := range [][]int{open[:small], open[large:]} {
		for _, i := range left {
			s.columns[i] = column{math.MaxUint64, i}
			if weights[i] == 0 {
				s.columns[i] = column{0, heaviest}
			}
		}
	}
}

// fraction maps [0, 1) to the whole of uint64.
func fraction(x float64) uint64 { return uint64(x * (1 << 63) * 2) }

func (s *weighted) Len() int { return s.n }

func (s *weighted) Index(epoch, k int) int {
	i := reduce(hash(s.seed, uint64(epoch), uint64(k), streamWeighted), len(s.columns))
	if c := s.columns[i]; hash(^s.seed, uint64(epoch), uint64(k), streamWeighted) >= c.threshold {
		return c.alias
	}
	return i
}

// indices draws without waiting for one table entry before asking for the next.
func (s *weighted) indices(epoch, start, step int, dst []int) {
	for i := range dst {
		dst[i] = s.Index(epoch, start+i*step)
	}
}

// reduce maps a uniform word to [0, n) without the bias and cost of a division (Lemire).
func reduce(word uint64, n int) int {
	hi, _ := bits.Mul64(word, uint64(n))
	return int(hi)
}
