package soft

// This file has the device's memory: made-up addresses, what lies behind them, and the accounts.

import (
	"slices"

	"github.com/pintensor/pin/internal/driver"
)

const (
	// firstAddress is far above what Linux, Darwin and Windows map for a process, so that a host that
	// dereferences a device address faults.
	firstAddress = 1 << 56 >> (64 - addressBits)

	// alignment is what CUDA guarantees for an allocation.
	alignment = 256
)

// addressBits is 64 or 32.
const addressBits = 32 << (^uintptr(0) >> 63)

// block is one allocation.
type block struct {
	base    driver.DevicePtr
	bytes   []byte
	async   bool // made by AllocAsync
	leaving bool // FreeAsync was called: no more work may be issued that uses it
}

func (b *block) holds(p driver.DevicePtr, n int64) bool {
	return p >= b.base && uint64(p-b.base) <= uint64(len(b.bytes)) && uint64(n) <= uint64(len(b.bytes))-uint64(p-b.base)
}

// memory is a device's memory. Its methods are called with the device's lock held.
type memory struct {
	total  int64
	used   int64    // in blocks
	pooled int64    // left in the pool by FreeAsync: nobody's, but not free either before TrimPool
	blocks []*block // by address
	next   driver.DevicePtr
}

// reserve returns an address for n bytes, without the bytes, or false if there is no room.
func (m *memory) reserve(n int64, async bool) (*block, bool) {
	reused := int64(0)
	if async {
		reused = min(n, m.pooled)
	}
	if n > m.total-m.used-m.pooled+reused {
		return nil, false
	}
	m.pooled -= reused
	m.used += n
	b := &block{base: m.next, async: async}
	m.blocks = append(m.blocks, b)
	// A gap follows, so that the end of one block is not the beginning of the next.
	m.next += driver.DevicePtr(roundUp(n) + alignment)
	return b, true
}

// find returns the block that holds the n bytes at p, or nil.
func (m *memory) find(p driver.DevicePtr, n int64) *block {
	i, exact := slices.BinarySearchFunc(m.blocks, p, func(b *block, p driver.DevicePtr) int {
		switch {
		case b.base < p:
			return -1
		case b.base > p:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	if i < 0 || !m.blocks[i].holds(p, n) {
		return nil
	}
	return m.blocks[i]
}

// at returns the block that begins at p, or nil.
func (m *memory) at(p driver.DevicePtr) *block {
	if b := m.find(p, 0); b != nil && b.base == p {
		return b
	}
	return nil
}

// remove takes b away; its bytes go to the pool or are free.
func (m *memory) remove(b *block, toPool bool) {
	i := slices.Index(m.blocks, b)
	if i < 0 {
		return // freed before: Free overtook a queued FreeAsync
	}
	m.blocks = slices.Delete(m.blocks, i, i+1)
	m.used -= int64(len(b.bytes))
	if toPool {
		m.pooled += int64(len(b.bytes))
	}
}

func roundUp(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }
