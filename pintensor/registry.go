package pintensor

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// The registry answers, for any address of the process, which block it lies in: it finds the segment, and
// that the block. Whether memory is pinned is a question about an address: a view has its own header, its own engine,
// and nothing that leads back to the tensor it was made from.
//
// It is read on every copy and changes only when memory is registered with the driver, which costs a
// thousand times more; so readers search immutable sorted slices, and a change replaces what it changes: one of
// the runs that the sorted extents are cut into, and the list of runs. In one piece they would be 2.4 MB to copy for
// each of a hundred thousand segments. It holds addresses as integers and so keeps no block's memory alive. The
// blocks' finalizers take an entry out before the memory can be used for anything else.

// extent is a range of addresses that belongs to one segment: the whole pages that its memory lies on.
type extent struct {
	lo, hi uintptr // hi is the first address after it
	s      *segment
}

// run is some extents, by address.
type run struct {
	hi      uintptr // of the last
	extents []extent
}

// mostExtents is how many a run has at most.
const mostExtents = 256

type registry struct {
	mu   sync.Mutex // serialises writers
	snap atomic.Pointer[[]run]
	most int // extents of a run; 0: mostExtents
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
	runs := r.runs()
	i := runEndingAfter(runs, p)
	if i == len(runs) {
		return nil
	}
	in := runs[i].extents
	return &in[extentEndingAfter(in, p)]
}

// runEndingAfter returns which of the runs is the first that ends after p, their number if none does. It and
// extentEndingAfter are not calls of sort.Search since every Release and copy is one of them: to call a function for
// each comparison would take most of the time.
func runEndingAfter(runs []run, p uintptr) int {
	lo, hi := 0, len(runs) // runs[:lo] end at or before p, runs[hi:] after it
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if runs[mid].hi <= p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// extentEndingAfter does the same for extents.
func extentEndingAfter(extents []extent, p uintptr) int {
	lo, hi := 0, len(extents)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if extents[mid].hi <= p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
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
		for _, in := range r.runs() {
			for _, x := range in.extents {
				if x.s.eng == e && !yield(x.s) {
					return
				}
			}
		}
	}
}

// runs returns all extents: none of them is empty.
func (r *registry) runs() []run {
	if snap := r.snap.Load(); snap != nil {
		return *snap
	}
	return nil
}

// add enters the addresses [lo, hi) for s. If another entry overlaps it returns that one's segment and
// changes nothing.
func (r *registry) add(lo, hi uintptr, s *segment) (overlap *segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := r.runs()
	if len(runs) == 0 {
		r.replace(0, 0, []extent{{lo, hi, s}})
		return nil
	}
	// Into the first run that ends after it, else the last.
	i := min(runEndingAfter(runs, lo), len(runs)-1)
	old := runs[i].extents
	j := extentEndingAfter(old, lo)
	if j < len(old) && old[j].lo < hi {
		return old[j].s
	}
	r.replace(i, 1, slices.Concat(old[:j], []extent{{lo, hi, s}}, old[j:]))
	return nil
}

// remove takes out the entry that starts at lo.
func (r *registry) remove(lo uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := r.runs()
	i := runEndingAfter(runs, lo)
	if i == len(runs) {
		return
	}
	old := runs[i].extents
	j := extentEndingAfter(old, lo)
	if old[j].lo != lo {
		return
	}
	left := slices.Concat(old[:j], old[j+1:])
	few := func(i int) bool { return len(left)+len(runs[i].extents) <= r.longest()/2 }
	switch { // or few would be left in many runs
	case i > 0 && few(i-1):
		r.replace(i-1, 2, slices.Concat(runs[i-1].extents, left))
	case i+1 < len(runs) && few(i+1):
		r.replace(i, 2, slices.Concat(left, runs[i+1].extents))
	default:
		r.replace(i, 1, left)
	}
}

// replace puts extents where n runs from i on were: as one run, two if they are many, or none. r.mu is held.
func (r *registry) replace(i, n int, extents []extent) {
	var with []run
	for half := (len(extents) + 1) / 2; len(extents) > 0; {
		part := extents
		if len(extents) > r.longest() {
			part = extents[:half:half]
		}
		with = append(with, run{part[len(part)-1].hi, part})
		extents = extents[len(part):]
	}
	runs := slices.Concat(r.runs()[:i], with, r.runs()[i+n:])
	r.snap.Store(&runs)
}

func (r *registry) longest() int {
	if r.most > 0 {
		return r.most
	}
	return mostExtents
}
