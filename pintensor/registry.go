package pintensor

import (
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"
)

// The registry answers, for any address of the process, which block it lies in. Whether memory is
// pinned is a question about an address: a view has its own header, its own engine, and nothing that
// leads back to the tensor it was made from.
//
// It is read on every copy and changes only when memory is registered with the driver, which costs a
// thousand times more; so readers search an immutable sorted slice, and a change replaces the slice.
// It holds addresses as integers and so keeps no block's memory alive. The blocks' finalizers take an
// entry out before the memory can be used for anything else.

// extent is a range of addresses that belongs to one block: the whole pages that its memory lies on.
type extent struct {
	lo, hi uintptr // hi is the first address after it
	b      *block
}

type registry struct {
	mu   sync.Mutex // serialises writers
	snap atomic.Pointer[[]extent]
}

// blocks is the registry of the whole process.
var blocks registry

// find returns the block that p lies in, or nil.
func (r *registry) find(p uintptr) *block {
	s := r.snap.Load()
	if s == nil {
		return nil
	}
	all := *s
	lo, hi := 0, len(all) // all[:lo] start at or before p, all[hi:] after it
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if all[mid].lo <= p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 || p >= all[lo-1].hi {
		return nil
	}
	return all[lo-1].b
}

// holding returns the block that all of mem lies in, or nil.
func (r *registry) holding(mem []byte) *block {
	if cap(mem) == 0 {
		return nil
	}
	p := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	b := r.find(p)
	if b == nil || p < b.lo || p+uintptr(len(mem)) > b.lo+uintptr(b.size) {
		return nil // b's pages are wider than its memory
	}
	return b
}

// add enters the addresses [lo, hi) for b. If another entry overlaps it returns that one's block and
// changes nothing.
func (r *registry) add(lo, hi uintptr, b *block) (overlap *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var old []extent
	if s := r.snap.Load(); s != nil {
		old = *s
	}
	i := sort.Search(len(old), func(i int) bool { return old[i].hi > lo })
	if i < len(old) && old[i].lo < hi {
		return old[i].b
	}
	grown := make([]extent, 0, len(old)+1)
	grown = append(grown, old[:i]...)
	grown = append(grown, extent{lo, hi, b})
	grown = append(grown, old[i:]...)
	r.snap.Store(&grown)
	return nil
}

// remove takes out the entry that starts at lo.
func (r *registry) remove(lo uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.snap.Load()
	if s == nil {
		return
	}
	old := *s
	i := sort.Search(len(old), func(i int) bool { return old[i].lo >= lo })
	if i == len(old) || old[i].lo != lo {
		return
	}
	shrunk := make([]extent, 0, len(old)-1)
	shrunk = append(shrunk, old[:i]...)
	shrunk = append(shrunk, old[i+1:]...)
	r.snap.Store(&shrunk)
}
