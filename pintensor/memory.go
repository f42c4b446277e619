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

	hugePage = 2 << 20 // of x86, and of ARM with small pages of 4 KiB; elsewhere a guess does no harm
)

// newMemory returns memory of the Go heap that starts on a page of the given size, how far into its allocation
// that is, and whether it is zeros. It shares no page with anything else.
func newMemory(size int64, page uintptr) (mem unsafe.Pointer, head uintptr, zeros bool) {
	page = max(page, heapPage)
	n := (max(uintptr(size), minSegment) + page - 1) / page * page
	mem, zeros = heapMemory(n)
	if past := uintptr(mem) % page; past != 0 {
		mem, zeros = heapMemory(n + page - heapPage)
		if past = uintptr(mem) % page; past != 0 {
			head = page - past
		}
		mem = unsafe.Add(mem, head)
	}
	return mem, head, zeros
}

func heapMemory(n uintptr) (mem unsafe.Pointer, zeros bool) {
	if n >= largeBlock {
		return largeMemory(n)
	}
	return unsafe.Pointer(unsafe.SliceData(make([]byte, n))), true
}

// touch makes the system give every page of fresh memory, to at most that many goroutines at once. Their parts
// begin on huge pages: two that touch the same one for the first time may both have it cleared.
func touch(most int, s []byte) {
	each := func(s []byte) {
		for i := 0; i < len(s); i += 4096 {
			s[i] = 0
		}
	}
	lead := min(-uintptr(unsafe.Pointer(unsafe.SliceData(s)))%hugePage, uintptr(len(s)))
	each(s[:lead])
	s = s[lead:]
	share(most, len(s), hugePage, fast, func(from, to int) { each(s[from:to]) })
}
