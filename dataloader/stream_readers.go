package dataloader

// The goroutines that read shards of a stream, for who waits for their end.

import (
	"slices"
	"sync"
	"time"
)

// readers are those of one run.
type readers struct {
	mu     sync.Mutex
	shards []int
	none   chan struct{} // closed when there are none; nil before the first
}

func (r *readers) add(shard int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.shards) == 0 {
		r.none = make(chan struct{})
	}
	r.shards = append(r.shards, shard)
}

func (r *readers) remove(shard int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.shards, shard)
	r.shards = slices.Delete(r.shards, i, i+1)
	if len(r.shards) == 0 {
		close(r.none)
	}
}

// running returns the shards that are being read.
func (r *readers) running() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.shards)
}

// await waits until none is, once no more are added, and returns whether that is so.
func (r *readers) await(timeout <-chan time.Time) bool {
	r.mu.Lock()
	none := r.none
	if len(r.shards) == 0 {
		none = nil
	}
	r.mu.Unlock()
	if none == nil {
		return true
	}
	select {
	case <-none:
		return true
	case <-timeout:
		return false
	}
}
