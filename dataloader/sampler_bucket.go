package dataloader

// Batches of samples of similar length, so that padding them to one length costs little.
//
// Which samples may share a batch is decided once: the samples are sorted by length, and cut into buckets.
// An epoch's order is computed batch by batch then, by shuffling within each bucket and shuffling the batches,
// with permutations that need no memory: any batch can be asked for at any time, as a BatchSampler must.

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Buckets says how [Bucketed] makes batches. One of BatchSize and MaxTokens must be set.
type Buckets struct {
	// BatchSize is the most samples in a batch. 0: as many as MaxTokens allows.
	BatchSize int

	// MaxTokens is the most elements that a batch has once its samples are padded to one length: their
	// number times the longest. Batches of short samples have more of them. 0: no bound.
	MaxTokens int

	// Multiple is what lengths are padded up to a multiple of, for MaxTokens to count. 0: 1.
	Multiple int

	// Boundaries are the largest lengths of the buckets, ascending; longer samples make up one more. In a
	// bucket MaxTokens counts its boundary: samples can all be padded to it, so that batches have few
	// shapes. Each bucket ends with a smaller batch. Nil: buckets are made so that lengths in one differ by at
	// most a fifth, and of at most 50 batches, except that each has at least one; only one batch of all is smaller then.
	Boundaries []int

	// Shuffle puts other samples of similar length together each epoch, and the batches in another order.
	// Otherwise batches come longest first, so that what does not fit in memory shows at once.
	Shuffle bool

	// Seed is what the order is derived from, together with the epoch.
	Seed uint64

	// DropLast leaves the smaller batch at the end of a bucket out.
	DropLast bool
}

const (
	bucketBatches = 50 // in a bucket made from lengths, at most: enough others for a sample to be with
	bucketSpread  = 5  // lengths in it are at least (bucketSpread-1)/bucketSpread of the longest
)

// Bucketed returns a BatchSampler whose batches have samples of similar length: sample i has lengths[i] >= 0
// elements. Each sample comes exactly once an epoch (but for DropLast), and batches are functions of
// b.Seed and the epoch alone. Every epoch has the same number of batches.
//
// It takes 8 bytes a sample, and keeps neither lengths nor Boundaries. A sample with more elements than MaxTokens is an
// error that names it, as are values in b that make no sense.
func Bucketed(lengths []int, b Buckets) (BatchSampler, error) {
	s := &bucketed{shuffle: b.Shuffle}
	if err := b.check(); err != nil {
		return nil, err
	}
	for i, n := range lengths {
		if n < 0 {
			return nil, fmt.Errorf("dataloader: Bucketed: lengths[%d] = %d: want >= 0", i, n)
		}
		if b.MaxTokens > 0 && b.padded(n) > b.MaxTokens {
			return nil, fmt.Errorf("dataloader: Bucketed: lengths[%d] = %d: want at most Buckets.MaxTokens, %d, padded to a multiple of %d",
				i, n, b.MaxTokens, max(b.Multiple, 1))
		}
	}
	s.order = numbers(len(lengths))
	slices.SortFunc(s.order, func(i, j int) int { return cmp.Or(cmp.Compare(lengths[j], lengths[i]), cmp.Compare(i, j)) })
	for start := 0; start < len(s.order); {
		n, size, err := b.bucket(lengths, s.order[start:])
		if err != nil {
			return nil, err
		}
		batches := n / size
		if n%size > 0 && !b.DropLast {
			batches++
		}
		seed := hash(b.Seed, uint64(len(s.buckets)), 0, streamBuckets)
		s.buckets = append(s.buckets, bucket{start: start, n: n, size: size, before: s.batches, order: newPermutation(n, seed)})
		s.batches += batches
		start += n
	}
	s.batchOrder = newPermutation(s.batches, b.Seed)
	return s, nil
}

// numbers returns 0, 1, ..., n-1.
func numbers(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func (b *Buckets) check() error {
	switch {
	case b.BatchSize < 0:
		return fmt.Errorf("dataloader: Bucketed: Buckets.BatchSize = %d: want >= 0", b.BatchSize)
	case b.MaxTokens < 0:
		return fmt.Errorf("dataloader: Bucketed: Buckets.MaxTokens = %d: want >= 0", b.MaxTokens)
	case b.BatchSize == 0 && b.MaxTokens == 0:
		return fmt.Errorf("dataloader: Bucketed: Buckets.BatchSize and MaxTokens are 0: want one of them > 0")
	case b.Multiple < 0:
		return fmt.Errorf("dataloader: Bucketed: Buckets.Multiple = %d: want >= 0", b.Multiple)
	}
	for i, bound := range b.Boundaries {
		if bound <= 0 || i > 0 && bound <= b.Boundaries[i-1] {
			return fmt.Errorf("dataloader: Bucketed: Buckets.Boundaries[%d] = %d: want ascending lengths > 0, have %v", i, bound, b.Boundaries)
		}
	}
	return nil
}

// padded returns how long a sample of n elements is in a batch by itself. An empty one counts as one, so that
// a batch of them has an end.
func (b *Buckets) padded(n int) int {
	if m := b.Multiple; m > 1 && n%m > 0 && n <= maxInt-m {
		n += m - n%m
	}
	return max(n, 1)
}

// bucket returns how many samples from the start of order on, which is sorted from long to short, make up the
// next bucket, and how many of those a batch.
func (b *Buckets) bucket(lengths, order []int) (n, size int, err error) {
	longest := lengths[order[0]]
	bound, shortest := b.padded(longest), 0
	if b.Boundaries != nil {
		i := sort.SearchInts(b.Boundaries, longest)
		if i < len(b.Boundaries) {
			bound = b.padded(b.Boundaries[i])
		}
		if i > 0 {
			shortest = b.Boundaries[i-1] + 1
		}
		if b.MaxTokens > 0 && bound > b.MaxTokens {
			return 0, 0, fmt.Errorf("dataloader: Bucketed: Buckets.Boundaries[%d] = %d: want at most MaxTokens, %d, where there are samples of that bucket",
				i, b.Boundaries[i], b.MaxTokens)
		}
	} else {
		shortest = longest - longest/bucketSpread
	}
	size = b.BatchSize
	if b.MaxTokens > 0 {
		size = b.MaxTokens / bound
		if b.BatchSize > 0 {
			size = min(size, b.BatchSize)
		}
	}
	n = sort.Search(len(order), func(k int) bool { return lengths[order[k]] < shortest })
	if b.Boundaries != nil {
		return n, size, nil
	}
	// Whole batches, but for the last bucket; and at least four buckets where there are that many batches, or a
	// small set would have only one.
	most := min(bucketBatches, max(len(lengths)/size/4, 1))
	n = size * min(max(n/size, 1), most)
	return min(n, len(order)), size, nil
}

// bucketed is a BatchSampler over buckets of its order.
type bucketed struct {
	order      []int // all samples, from long to short
	buckets    []bucket
	batches    int
	shuffle    bool
	batchOrder *permutation
}

type bucket struct {
	start, n int // in the order
	size     int // of a batch
	before   int // batches of earlier buckets
	order    *permutation
}

func (s *bucketed) Len(epoch int) int { return s.batches }

func (s *bucketed) Batch(epoch, b int, dst []int) []int {
	if s.shuffle {
		b = s.batchOrder.order(epoch).at(uint64(s.batches), uint64(b))
	}
	own := &s.buckets[sort.Search(len(s.buckets), func(i int) bool { return s.buckets[i].before > b })-1]
	lo := (b - own.before) * own.size
	hi := min(lo+own.size, own.n)
	if !s.shuffle {
		return append(dst, s.order[own.start+lo:own.start+hi]...)
	}
	o := own.order.order(epoch)
	for k := lo; k < hi; k++ {
		dst = append(dst, s.order[own.start+o.at(uint64(own.n), uint64(k))])
	}
	return dst
}
