package pintensor

import (
	"os"
	"unsafe"
)

// This file makes the memory of new segments: a span of the Go heap for each, so that the pointer in every
// tensor and slice made from it is one that the collector follows. The heap puts objects of this size
// on pages of their own, of 8 KiB, never moves them, and does not scan memory without pointers.

// pageSize is the system's. Where it is larger than the heap's, segments are aligned to it, or two of
// them would share a page, which can be locked only once.
var pageSize = uintptr(os.Getpagesize())

const (
	// From largeBlock on, memory is put on huge pages where the system offers them, and touched by
	// several goroutines at once: the first touch of a page, in which the kernel clears it, is most of
	// the time that page-locking new memory takes.
	largeBlock = 4 << 20
)

// newMemory returns zeroed memory of the Go heap that starts on a page of the given size, and how far
// into its allocation that is. It shares no page with anything else.
func newMemory(size int64, page uintptr) (mem unsafe.Pointer, head uintptr) {
	page = max(page, heapPage)
	n := (max(uintptr(size), minSegment) + page - 1) / page * page
	mem = unsafe.Pointer(unsafe.SliceData(make([]byte, n)))
	if past := uintptr(mem) % page; past != 0 {
		mem = unsafe.Pointer(unsafe.SliceData(make([]byte, n+page-heapPage)))
		if past = uintptr(mem) % page; past != 0 {
			head = page - past
		}
		mem = unsafe.Add(mem, head)
	}
	return mem, head
}

// touch makes the system give every page of fresh memory, to at most that many goroutines at once.
func touch(most int, s []byte) {
	share(most, len(s), heapPage, func(from, to int) {
		for i := from; i < to; i += 4096 {
			s[i] = 0
		}
	})
}
