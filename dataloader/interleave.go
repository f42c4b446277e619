package dataloader

// Sets in turn, in given proportions.
//
// The order is a pattern of sets, as long as the sum of the weights, over and over again: so which sample is at
// a place is found by a division and a look-up. Where sets that have run out are passed over, each time that one
// does a new stretch begins, with the pattern of those that are left.

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sort"
)

// StopRule says where a set made by [Interleave] ends.
type StopRule int

const (
	// FirstExhausted ends it before the first place whose set has no sample left: none comes twice.
	FirstExhausted StopRule = iota

	// AllExhausted ends it when all sets have run out: each sample comes exactly once. Sets that have run out are
	// passed over, and the others keep their weights among each other.
	AllExhausted

	// CycleUntilAllExhausted ends it when each set has come whole at least once. Sets that have run out before
	// begin again, so the proportions are kept to the end.
	CycleUntilAllExhausted
)

// String returns the constant's name.
func (s StopRule) String() string {
	return nameOf(int(s), "StopRule", "FirstExhausted", "AllExhausted", "CycleUntilAllExhausted")
}

// maxPattern is the longest pattern of sets, 12 bytes a place.
const maxPattern = 1 << 16

// Interleave returns the set that takes samples from several sets in turn: of each sum(weights) consecutive samples
// weights[j] are of set j, spread evenly, and the samples of each set come in order. Nil weights
// are all 1. The same arguments give the same order; nothing is random. With [Config.Shuffle] only the
// proportions in the whole epoch are left. The names of rules are torchdata's.
//
// The sets must have the same fields, with the same names. Weights must be > 0, and their sum, divided by what
// they have in common, at most 2^16. A set of no samples is an error with CycleUntilAllExhausted.
func Interleave(stop StopRule, weights []int, sets ...Dataset) (Dataset, error) {
	parts, err := newParts("Interleave", sets)
	if err != nil {
		return nil, err
	}
	if err := alike(parts); err != nil {
		return nil, err
	}
	if stop < FirstExhausted || stop > CycleUntilAllExhausted {
		return nil, fmt.Errorf("dataloader: Interleave: stop = %d: want FirstExhausted, AllExhausted or CycleUntilAllExhausted", int(stop))
	}
	if weights == nil {
		for range sets {
			weights = append(weights, 1)
		}
	}
	if len(weights) != len(sets) {
		return nil, fmt.Errorf("dataloader: Interleave: %d weights: want %d, one for each set", len(weights), len(sets))
	}
	for j, w := range weights {
		if w <= 0 {
			return nil, fmt.Errorf("dataloader: Interleave: weights[%d] = %d: want > 0", j, w)
		}
		if stop == CycleUntilAllExhausted && parts[j].n == 0 {
			return nil, fmt.Errorf("dataloader: %s has no samples: want at least one with %v", parts[j].name, stop)
		}
	}
	s := &interleaved{several: several{parts, "Interleave"}, cycle: stop == CycleUntilAllExhausted}
	if err := s.plan(stop, weights); err != nil {
		return nil, err
	}
	return s, nil
}

type interleaved struct {
	several
	n         int
	cycle     bool
	stretches []stretch
}

// stretch is places that follow one pattern.
type stretch struct {
	start   int       // the first place
	base    []int     // samples of each set that came before
	each    []int     // samples of each set in a pattern
	pattern []pick    // one after the other
	places  [][]int32 // in the pattern, by set
}

// pick is a place of a pattern: a set, and how many of its samples came before in the pattern.
type pick struct{ set, before int32 }

// plan lays the stretches out.
func (s *interleaved) plan(stop StopRule, weights []int) error {
	base := make([]int, len(weights))
	for {
		active := make([]int, len(weights)) // weights of the sets that have samples left
		any := false
		for j, w := range weights {
			if base[j] < s.parts[j].n || stop == FirstExhausted {
				active[j], any = w, true
			}
		}
		if !any {
			return nil
		}
		t, err := newStretch(s.n, base, active)
		if err != nil {
			return err
		}
		length := 0
		if stop != CycleUntilAllExhausted {
			length = maxInt
		}
		for j, w := range active {
			switch {
			case w == 0:
			case stop == CycleUntilAllExhausted: // up to and with the last sample
				length = max(length, add(t.placeOf(j, s.parts[j].n-1), 1))
			default: // up to where there is none
				length = min(length, t.placeOf(j, s.parts[j].n-base[j]))
			}
		}
		if length == maxInt || length > maxInt-s.n {
			return fmt.Errorf("dataloader: Interleave: the sets make more than %d samples", maxInt)
		}
		if length > 0 {
			s.stretches = append(s.stretches, t)
			s.n += length
		}
		if stop != AllExhausted {
			return nil
		}
		next := make([]int, len(base))
		for j := range next {
			next[j] = base[j] + t.countBefore(j, length)
		}
		base = next
	}
}

// newStretch makes the pattern of weights, of which those of 0 don't take part.
func newStretch(start int, base, weights []int) (stretch, error) {
	common, sum := 0, 0
	for _, w := range weights {
		common = gcd(common, w)
	}
	each := make([]int, len(weights))
	for j, w := range weights {
		each[j] = w / common
		if sum = add(sum, each[j]); sum > maxPattern {
			return stretch{}, fmt.Errorf("dataloader: Interleave: weights %v: want a sum of at most %d, after division by what they have in common", weights, maxPattern)
		}
	}
	// Each set gains its weight at each place, and the one that has most is next, and pays the sum: a set that
	// was just taken waits for about as long as its weight says.
	pattern, places := make([]pick, sum), make([][]int32, len(weights))
	credit := make([]int, len(weights))
	for k := range pattern {
		best := -1
		for j, w := range each {
			credit[j] += w
			if w > 0 && (best < 0 || credit[j] > credit[best]) {
				best = j
			}
		}
		credit[best] -= sum
		pattern[k] = pick{int32(best), int32(len(places[best]))}
		places[best] = append(places[best], int32(k))
	}
	return stretch{start, base, each, pattern, places}, nil
}

// placeOf returns the place in the stretch of the k-th sample that it takes of set j, or maxInt.
func (t *stretch) placeOf(j, k int) int {
	hi, lo := bits.Mul64(uint64(k/t.each[j]), uint64(len(t.pattern)))
	if hi > 0 || lo > maxInt {
		return maxInt
	}
	return add(int(lo), int(t.places[j][k%t.each[j]]))
}

// countBefore returns how many samples of set j are in the first n places of the stretch.
func (t *stretch) countBefore(j, n int) int {
	rest, _ := slices.BinarySearch(t.places[j], int32(n%len(t.pattern)))
	return n/len(t.pattern)*t.each[j] + rest
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// add adds numbers >= 0, up to maxInt.
func add(a, b int) int {
	if a > maxInt-b {
		return maxInt
	}
	return a + b
}

func (s *interleaved) Len() int { return s.n }

func (s *interleaved) locate(i int) (part, index int) {
	t := &s.stretches[0]
	if len(s.stretches) > 1 {
		t = &s.stretches[sort.Search(len(s.stretches), func(j int) bool { return s.stretches[j].start > i })-1]
	}
	i -= t.start
	p := t.pattern[i%len(t.pattern)]
	part = int(p.set)
	index = t.base[part] + i/len(t.pattern)*t.each[part] + int(p.before)
	if s.cycle {
		index %= s.parts[part].n
	}
	return part, index
}

func (s *interleaved) Read(ctx context.Context, i int, row Row) error {
	if err := checkIndex(s.call, i, s.n); err != nil {
		return err
	}
	part, index := s.locate(i)
	return s.parts[part].read(ctx, index, row)
}

func (s *interleaved) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return mixed(ctx, s.call, s.n, s.parts, indices, rows, s.locate)
}
