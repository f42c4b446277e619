package pintensor

import (
	"math/bits"
	"sync"
)

// Blocks come in classes, so that one released by a tensor fits the next tensor of about its size.
// Up to 2 KiB they are multiples of 256 bytes. From there on there are eight classes at equal distances between
// a power of two and the next, so a block is at most an eighth larger than what was asked for.

const (
	// blockAlign is what every block starts on a multiple of, and is a multiple of: some cache lines, so that
	// neighbours in a segment have none in common, and what devices like to read at once.
	blockAlign = 256

	// heapPage is the Go heap's page.
	heapPage = 8 << 10

	// minBlock is the smallest block that is a segment of its own. The Go heap gives objects of this size a
	// span of their own from just below it on; smaller ones would share pages with objects that have nothing
	// to do with pinning.
	minBlock = 32 << 10

	// maxBlock bounds a block: 2^47 bytes is the address space.
	maxBlock = 1 << 46

	classesPerDoubling = 8
	firstShift         = 11 // up to 2^firstShift the classes are multiples of blockAlign
	numClasses         = classesPerDoubling + (46-firstShift)*classesPerDoubling

	// carvedClasses are the classes of blocks smaller than minBlock.
	carvedClasses = classesPerDoubling + (15-firstShift)*classesPerDoubling - 1
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
	if n <= 1<<firstShift {
		units := (max(n, 1) + blockAlign - 1) / blockAlign
		return int(units) - 1, units * blockAlign
	}
	shift := bits.Len64(uint64(n-1)) - 1 // 2^shift < n <= 2^(shift+1)
	step := int64(1) << (shift - 3)      // an eighth
	over := (n - 1<<shift + step - 1) >> (shift - 3)
	return (shift-firstShift+1)*classesPerDoubling + int(over) - 1, 1<<shift + over*step
}
