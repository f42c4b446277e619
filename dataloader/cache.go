package dataloader

// A set in front of a slow one, that remembers samples.

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Cached is a set with samples of another in memory: see [Cache].
type Cached struct {
	part
	limit    int // samples that there is room for
	perChunk int
	where    []atomic.Int32 // by sample: its place + 1, 0: none, taken: being copied
	chunks   []atomic.Pointer[[]byte]
	next     atomic.Int64 // place that is free
	growing  sync.Mutex   // making chunks
	uneven   *unevenCache // instead, where samples differ in size
	meta     sync.Map     // attached to samples in memory, by sample
	anyMeta  atomic.Bool  // something is in it

	stored, hits, misses atomic.Int64
}

const (
	cacheChunk = 1 << 20 // bytes of a chunk, or one sample
	taken      = -1
	maxPlaces  = 1<<31 - 2
)

// Cache returns ds with samples kept in memory as they are read, in at most maxBytes of it: 4 bytes for each sample
// of ds at once, and the samples' own bytes as they come; 8 bytes for each, and 32 more for those in memory, where a
// field's shape differs between samples. The first samples read stay; when it is full, others are
// read from ds each time. Training reads every sample once an epoch, and then nothing is better: to make room for a
// new sample by forgetting an old one, as LRU does, would forget each before it is needed again.
//
// What is random in a sample of ds is remembered too: augmentation belongs after the cache, in [Map]. So is what
// [Row.SetMeta] attaches, beside maxBytes. Errors are not. Two workers that want a sample at the same time may both
// read it. The memory is ordinary and goes with the set. maxBytes too small for one sample is an error.
func Cache(ds Dataset, maxBytes int64) (*Cached, error) {
	p, err := newPart("Cache: set", ds)
	if err != nil {
		return nil, err
	}
	c := &Cached{part: p}
	if p.n == 0 {
		return c, nil
	}
	if slices.ContainsFunc(p.layout.wide, func(w *wide) bool { return w != nil }) {
		c.uneven, err = newUnevenCache(p.n, maxBytes)
		return c, err
	}
	if p.n > maxInt/8 || maxBytes < 4*int64(p.n)+int64(p.layout.total) {
		return nil, fmt.Errorf("dataloader: Cache: maxBytes = %d: want 4 for each of %d samples, and %d for one of them at least",
			maxBytes, p.n, p.layout.total)
	}
	c.limit = int(min((maxBytes-4*int64(p.n))/int64(p.layout.total), int64(p.n), maxPlaces))
	c.perChunk = max(cacheChunk/p.layout.total, 1)
	c.where = make([]atomic.Int32, p.n)
	c.chunks = make([]atomic.Pointer[[]byte], (c.limit+c.perChunk-1)/c.perChunk)
	return c, nil
}

// CacheStats are figures of a [Cached] set.
type CacheStats struct {
	Samples      int64 // in memory
	Limit        int64 // samples that there is room for; 0, not known, where they differ in size
	Bytes        int64 // of samples in memory
	Hits, Misses int64 // samples that were there when asked for, and that were not
}

// Stats returns the figures. It may be called at any time.
func (c *Cached) Stats() CacheStats {
	n := c.stored.Load()
	if c.uneven != nil {
		return CacheStats{n, 0, c.uneven.bytes.Load(), c.hits.Load(), c.misses.Load()}
	}
	return CacheStats{n, int64(c.limit), n * int64(c.layout.total), c.hits.Load(), c.misses.Load()}
}

// Len is the number of samples, in memory or not.
func (c *Cached) Len() int { return c.n }

// Fields are those of the set.
func (c *Cached) Fields() []Field { return c.layout.fields }

// Read reads sample i, as [Dataset] says.
func (c *Cached) Read(ctx context.Context, i int, row Row) error {
	if err := checkIndex("Cache", i, c.n); err != nil {
		return err
	}
	if c.load(i, row) {
		c.hits.Add(1)
		return nil
	}
	c.misses.Add(1)
	if err := c.read(ctx, i, row); err != nil {
		return err
	}
	c.store(i, row)
	return nil
}

// ReadBatch reads several samples, as [BatchReader] says. Those that are missing are read from the set together
// where they are neighbours in the batch.
func (c *Cached) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	hits := 0
	for k := 0; k < len(indices); {
		if err := checkIndex("Cache", indices[k], c.n); err != nil {
			return err
		}
		if c.load(indices[k], rows.Row(k)) {
			hits++
			k++
			continue
		}
		from := k
		for k++; k < len(indices) && checkIndex("Cache", indices[k], c.n) == nil && !c.has(indices[k]); k++ {
		}
		if err := c.readRows(ctx, indices[from:k], rows.rows(from, k-from)); err != nil {
			return err
		}
		for at := from; at < k; at++ {
			c.store(indices[at], rows.Row(at))
		}
	}
	c.hits.Add(int64(hits))
	c.misses.Add(int64(len(indices) - hits))
	return nil
}

// has reports whether sample i is in memory.
func (c *Cached) has(i int) bool {
	if c.uneven != nil {
		return c.uneven.samples[i].Load() != nil
	}
	return c.where[i].Load() > 0
}

// load copies sample i out of memory, if it is there.
func (c *Cached) load(i int, row Row) bool {
	if c.uneven != nil {
		if !c.uneven.load(i, row) {
			return false
		}
	} else {
		place := int(c.where[i].Load()) - 1
		if place < 0 {
			return false
		}
		at := c.at(place)
		for f, size := range c.layout.rowBytes {
			copy(row.Bytes(f), at[:size])
			at = at[size:]
		}
	}
	if c.anyMeta.Load() {
		if meta, ok := c.meta.Load(i); ok {
			row.SetMeta(meta)
		}
	}
	return true
}

// store keeps sample i, which is in row, if there is room.
func (c *Cached) store(i int, row Row) {
	if c.uneven != nil {
		if meta := row.Meta(); meta != nil && c.uneven.samples[i].Load() == nil {
			c.meta.Store(i, meta) // before the sample can be found
			c.anyMeta.Store(true)
		}
		if c.uneven.store(i, row) {
			c.stored.Add(1)
		}
		return
	}
	if c.next.Load() >= int64(c.limit) || !c.where[i].CompareAndSwap(0, taken) {
		return // full, or another worker is here
	}
	place := int(c.next.Add(1)) - 1
	if place >= c.limit {
		c.where[i].Store(0)
		return
	}
	at := c.at(place)
	for f, size := range c.layout.rowBytes {
		copy(at, row.Bytes(f))
		at = at[size:]
	}
	if meta := row.Meta(); meta != nil {
		c.meta.Store(i, meta)
		c.anyMeta.Store(true)
	}
	c.where[i].Store(int32(place) + 1)
	c.stored.Add(1)
}

// at returns the memory of a place. Who has a place of a chunk first makes the chunk.
func (c *Cached) at(place int) []byte {
	chunk, total := &c.chunks[place/c.perChunk], c.layout.total
	mem := chunk.Load()
	if mem == nil {
		c.growing.Lock()
		if mem = chunk.Load(); mem == nil {
			made := make([]byte, total*min(c.perChunk, c.limit-place/c.perChunk*c.perChunk))
			mem = &made
			chunk.Store(mem)
		}
		c.growing.Unlock()
	}
	offset := place % c.perChunk * total
	return (*mem)[offset : offset+total]
}

func (c *Cached) batches() bool    { return c.reader != nil }
func (c *Cached) overwrites() bool { return c.whole }

// String says what the set is made of.
func (c *Cached) String() string { return "Cache(" + describeSet(c.Dataset) + ")" }
