package dataloader

// Dividing a set at random.

import (
	"fmt"
	"math"
)

// RandomSplit divides ds at random into sets of the given sizes, each sample being in one of them: PyTorch's
// random_split. The sizes must be >= 0 and add up to ds.Len() exactly. Who is where depends on seed alone, and
// takes no memory that grows with ds: samples of a part come in a random order that stays the same.
func RandomSplit(ds Dataset, seed uint64, sizes ...int) ([]Dataset, error) {
	p, err := newPart("RandomSplit: set", ds)
	if err != nil {
		return nil, err
	}
	left := p.n
	for j, size := range sizes {
		if size < 0 {
			return nil, fmt.Errorf("dataloader: RandomSplit: sizes[%d] = %d: want >= 0", j, size)
		}
		if size > left {
			return nil, fmt.Errorf("dataloader: RandomSplit: sizes %v add up to more than %d, the samples there are", sizes, p.n)
		}
		left -= size
	}
	if left > 0 {
		return nil, fmt.Errorf("dataloader: RandomSplit: sizes %v add up to %d: want %d, the samples there are", sizes, p.n-left, p.n)
	}
	return split(p, seed, sizes), nil
}

// RandomSplitFractions is [RandomSplit] with sizes as fractions of ds.Len(): numbers >= 0 that add up to 1.
// Each size is within one sample of its fraction, and together they are all of ds.
func RandomSplitFractions(ds Dataset, seed uint64, fractions ...float64) ([]Dataset, error) {
	p, err := newPart("RandomSplitFractions: set", ds)
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for j, f := range fractions {
		if !(f >= 0 && f <= 1) { // the negation catches NaN
			return nil, fmt.Errorf("dataloader: RandomSplitFractions: fractions[%d] = %v: want 0 to 1", j, f)
		}
		sum += f
	}
	if math.Abs(sum-1) > 1e-6 {
		return nil, fmt.Errorf("dataloader: RandomSplitFractions: fractions %v add up to %v: want 1", fractions, sum)
	}
	// Each border is rounded, not each size: so errors don't add up, and 0.29 of 100 is 29 though
	// 0.29 * 100 is less.
	sizes := make([]int, len(fractions))
	before, border := 0.0, 0
	for j, f := range fractions {
		before += f
		next := p.n
		if j < len(fractions)-1 {
			next = min(int(math.Round(before/sum*float64(p.n))), p.n)
		}
		sizes[j] = next - border
		border = next
	}
	return split(p, seed, sizes), nil
}

func split(p part, seed uint64, sizes []int) []Dataset {
	order := newEpochOrder(p.n, hash(seed, 0, 0, streamSplit), 0)
	sets, before := make([]Dataset, len(sizes)), 0
	for j, size := range sizes {
		start := before
		sets[j] = &selection{p, "RandomSplit", size, func(i int) int { return order.at(uint64(p.n), uint64(start+i)) }}
		before += size
	}
	return sets
}
