package pintensor

import (
	"math/bits"
	"sync"
)

// Blocks come in classes, so that one released by a tensor fits the next tensor of about its size.
// Between a power of two and the next there are eight classes at equal distances, so a block is at
// most an eighth larger than what was asked for. Below 64 KiB the steps are spans of the Go heap.

const (
	// blockUnit is what block sizes are multiples of: the Go heap's page.
	blockUnit = 8 << 10

	// minBlock is the smallest block. The Go heap gives objects of this size a span of their own from
	// just below it on; smaller ones would share pages with objects that have nothing to do with pinning.
	minBlock = 32 << 10

	// maxBlock bounds a block: 2^47 bytes is the address space.
	maxBlock = 1 << 46

	classesPerDoubling = 8
	smallClasses       = 4 // 32, 40, 48, 56 KiB
	firstShift         = 16
	numClasses         = smallClasses + (46-firstShift)*classesPerDoubling + 1
)

// largest returns how many bytes a tensor may have: no more than there are in the machine. The heap would end
// the process over a shape with a mistake in it, since it can't be refused memory.
var largest = sync.OnceValue(func() int64 {
	if n := physicalMemory(); n > 0 {
		return min(n, maxBlock)
	}
	return maxBlock
})

// classOf returns the class of the smallest block that holds n bytes, and that block's size. n is
// between 0 and maxBlock.
func classOf(n int64) (class int, size int64) {
	if n <= minBlock {
		return 0, minBlock
	}
	if n <= 1<<firstShift {
		units := (n + blockUnit - 1) / blockUnit
		return int(units - minBlock/blockUnit), units * blockUnit
	}
	shift := bits.Len64(uint64(n-1)) - 1 // 2^shift < n <= 2^(shift+1)
	step := int64(1) << shift / classesPerDoubling
	over := (n - 1<<shift + step - 1) / step // 1 to 8
	return smallClasses + (shift-firstShift)*classesPerDoubling + int(over), 1<<shift + over*step
}
