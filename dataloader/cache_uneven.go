package dataloader

// The memory of a cache of samples that differ in size: each has its own.

import (
	"fmt"
	"sync/atomic"
)

type unevenCache struct {
	samples []atomic.Pointer[[]byte] // nil: not there
	left    atomic.Int64             // bytes that there is room for
	bytes   atomic.Int64             // of samples
}

const (
	unevenEach = 8  // bytes for each sample, in memory or not
	unevenOne  = 32 // and for one in memory, beside its own: a slice, and what sizes of objects are rounded up by
)

func newUnevenCache(n int, maxBytes int64) (*unevenCache, error) {
	if n > maxInt/unevenEach || maxBytes < unevenEach*int64(n)+unevenOne {
		return nil, fmt.Errorf("dataloader: Cache: maxBytes = %d: want %d for each of %d samples, and more for samples themselves", maxBytes, unevenEach, n)
	}
	c := &unevenCache{samples: make([]atomic.Pointer[[]byte], n)}
	c.left.Store(maxBytes - unevenEach*int64(n))
	return c, nil
}

// sizeOf is how many bytes the sample in a row takes: for each field its elements, after the shape where that differs.
func sizeOf(row Row) (size int) {
	for f, n := range row.b.rowBytes {
		size += n
		if row.b.layout.wide[f] != nil {
			size += len(row.b.ragged[f][row.k])
		}
	}
	return size
}

// store keeps the sample in row, and reports whether there was room, and it was not there.
func (c *unevenCache) store(i int, row Row) bool {
	if c.samples[i].Load() != nil {
		return false
	}
	size := sizeOf(row)
	if c.left.Add(-int64(size)-unevenOne) < 0 {
		c.left.Add(int64(size) + unevenOne)
		return false
	}
	mem := make([]byte, 0, size)
	for f := range row.b.rowBytes {
		mem = append(mem, row.fixed(f)...)
		if row.b.layout.wide[f] != nil {
			mem = append(mem, row.b.ragged[f][row.k]...)
		}
	}
	if !c.samples[i].CompareAndSwap(nil, &mem) { // another worker was faster
		c.left.Add(int64(size) + unevenOne)
		return false
	}
	c.bytes.Add(int64(size))
	return true
}

// load copies the sample into row, if it is there.
func (c *unevenCache) load(i int, row Row) bool {
	p := c.samples[i].Load()
	if p == nil {
		return false
	}
	mem := *p
	for f, w := range row.b.layout.wide {
		mem = mem[copy(row.fixed(f), mem):]
		if w == nil {
			continue
		}
		n := w.element // of the elements: those that the shape says
		for _, d := range row.shape(f) {
			n *= d
		}
		copy(row.b.grow(f, row.k, n), mem)
		mem = mem[n:]
	}
	return true
}
