package dataloader

// Batches of a sampler's order.

import "fmt"

// Batched returns the BatchSampler whose batches are batchSize (> 0) consecutive samples of s: PyTorch's
// BatchSampler. What is left at the end is a smaller batch, or with dropLast left out. A Loader does the same
// by itself with Config.BatchSize and Config.Sampler; what this is for is batch samplers made of others. Of
// several ranks each gets whole batches of it, where Config.Sampler is dealt out sample by sample.
func Batched(s Sampler, batchSize int, dropLast bool) (BatchSampler, error) {
	switch {
	case s == nil:
		return nil, fmt.Errorf("dataloader: Batched: s is nil: want a Sampler")
	case batchSize <= 0:
		return nil, fmt.Errorf("dataloader: Batched: batchSize = %d: want > 0", batchSize)
	}
	n := s.Len()
	if n < 0 {
		return nil, fmt.Errorf("dataloader: Batched: s.Len() = %d: want >= 0", n)
	}
	b := &batched{s: s, n: n, size: batchSize, batches: n / batchSize}
	if n%batchSize > 0 && !dropLast {
		b.batches++
	}
	return b, nil
}

type batched struct {
	s                Sampler
	n, size, batches int
}

func (s *batched) Len(epoch int) int { return s.batches }

func (s *batched) Batch(epoch, b int, dst []int) []int {
	start := b * s.size
	n := min(s.size, s.n-start)
	if bulk, ok := s.s.(bulkSampler); ok && n > 0 {
		dst = append(dst, make([]int, n)...)
		bulk.indices(epoch, start, 1, dst[len(dst)-n:])
		return dst
	}
	for k := range n {
		dst = append(dst, s.s.Index(epoch, start+k))
	}
	return dst
}
