package pintensor

import (
	"encoding/binary"
	"os"
	"strings"
	"unsafe"
)

// # Clearing large memory
//
// make clears memory with one thread, if the heap had it before: at 10 GB/s that is 100 ms for 1 GiB, and as much
// as all else that new memory costs. So large memory is had without being cleared, and cleared by several
// threads when it is lent, unless all of it is new from the system, which has cleared it. Which it is, the
// system says: pages that it has not given yet are neither present nor swapped out in /proc/self/pagemap
// (Documentation/admin-guide/mm/pagemap.rst). To look takes 1 ms for 1 GiB of new memory, and for other memory ends
// at the first page.

// largeMemory returns n bytes of the heap, and whether they are zeros.
func largeMemory(n uintptr) (mem unsafe.Pointer, zeros bool) {
	var b strings.Builder
	b.Grow(int(n)) // the way to have memory from the heap that is not cleared; if it were, this would be slower only
	b.WriteByte(0) // gives its page, so the others tell
	mem = unsafe.Pointer(unsafe.StringData(b.String()))
	next := pageSize - uintptr(mem)%pageSize
	if !isNew(uintptr(mem)+next, n-next) {
		return mem, false
	}
	clear(unsafe.Slice((*byte)(mem), next))
	return mem, true
}

const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
)

// isNew reports whether the system has given none of the pages of the n bytes at addr yet. It is false if that
// can't be told.
func isNew(addr, n uintptr) bool {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return false
	}
	defer pagemap.Close()
	buf := make([]byte, 64<<10)
	look := func(first, pages uintptr) (none, ok bool) {
		part := buf[:8*pages]
		if _, err := pagemap.ReadAt(part, int64(first)*8); err != nil {
			return false, false
		}
		for ; len(part) > 0; part = part[8:] {
			if binary.NativeEndian.Uint64(part)&(pagePresent|pageSwapped) != 0 {
				return false, true
			}
		}
		return true, true
	}
	// A page that is there for certain: a system that says it isn't is not to be believed.
	buf[0] = 1
	if none, ok := look(uintptr(unsafe.Pointer(&buf[0]))/pageSize, 1); none || !ok {
		return false
	}
	first, end := addr/pageSize, (addr+n+pageSize-1)/pageSize
	for first < end {
		pages := min(end-first, uintptr(len(buf)/8))
		if none, _ := look(first, pages); !none {
			return false
		}
		first += pages
	}
	return true
}
