package pintensor

import (
	"iter"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"
)

// The registry answers, for any address of the process, which block it lies in: it finds the segment, and
// that the block. Whether memory is pinned is a question about an address: a view has its own header, its own engine,
// and nothing that leads back to the tensor it was made from.
//
// It is read on every copy and changes only when memory is registered with the driver, which costs a
// thousand times more; so readers search an immutable sorted slice, and a change replaces the slice.
// It holds addresses as integers and so keeps no block's memory alive. The blocks' finalizers take an
// entry out before the memory can be used for anything else.

// extent is a range of addresses that belongs to one segment: the whole pages that its memory lies on.
type extent struct {
	lo, hi uintptr // hi is the first address after it
	s      *segment
}

type registry struct {
	mu   sync.Mutex // serialises writers
	snap atomic.Pointer[[]extent]
}

// blocks is the registry of the whole process.
var blocks registry

// segment returns the segment that p lies in, or nil.
func (r *registry) segment(p uintptr) *segment {
	if x := r.endingAfter(p); x != nil && x.lo <= p {
		return x.s
	}
	return nil
}

// allocatedAt returns the segment whose memory lies in the object of the heap that starts at p, or nil.
func (r *registry) allocatedAt(p uintptr) *segment {
	if x := r.endingAfter(p); x != nil && x.s.base-uintptr(x.s.head) == p {
		return x.s
	}
	return nil
}

// endingAfter returns the first extent that ends after p, or nil.
func (r *registry) endingAfter(p uintptr) *extent {
	snap := r.snap.Load()
	if snap == nil {
		return nil
	}
	all := *snap
	lo, hi := 0, len(all) // all[:lo] end at or before p, all[hi:] after it
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if all[mid].hi <= p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(all) {
		return nil
	}
	return &all[lo]
}

// find returns the block that p lies in, or nil.
func (r *registry) find(p uintptr) *block {
	s := r.segment(p)
	if s == nil || p < s.base {
		return nil
	}
	return s.blockAt(p)
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

// of returns the segments of an engine.
func (r *registry) of(e *Engine) iter.Seq[*segment] {
	return func(yield func(*segment) bool) {
		snap := r.snap.Load()
		if snap == nil {
			return
		}
		for _, x := range *snap {
			if x.s.eng == e && !yield(x.s) {
				return
			}
		}
	}
}

// add enters the addresses [lo, hi) for s. If another entry overlaps it returns that one's segment and
// changes nothing.
func (r *registry) add(lo, hi uintptr, s *segment) (overlap *segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var old []extent
	if snap := r.snap.Load(); snap != nil {
		old = *snap
	}
	i := sort.Search(len(old), func(i int) bool { return old[i].hi > lo })
	if i < len(old) && old[i].lo < hi {
		return old[i].s
	}
	grown := make([]extent, 0, len(old)+1)
	grown = append(grown, old[:i]...)
	grown = append(grown, extent{lo, hi, s})
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
