// Package gather copies scattered rows of memory next to each other, which is what making a batch of shuffled samples is.
//
// A processor does not see such a row coming: its own prefetching starts anew with each, and a core that copies one
// row after the other waits for memory most of the time. But the order is known, so the rows to come are prefetched while
// others are copied. How much is best prefetched, if anything, depends on the processor, on the rows' length and on which cache
// they lie in, and is found by measuring the calls themselves, now and again: see choice. What is copied is the same
// each way.
package gather

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/nontemporal"
)

// The ways to copy.
const (
	plain        = iota // row by row
	prefetchHead        // prefetching the beginning of the next rows: the processor's own prefetching goes on from there
	prefetchRow         // prefetching all of the next rows
	ways
)

const (
	// minRowBytes is the length of rows below which so many are on their way at the same time anyway that prefetching costs more
	// than it saves: with 64 bytes the ways differ by less than a tenth (BenchmarkCopy).
	minRowBytes = 256

	// minRows is how many rows a call has at least to be prefetched: with fewer nothing can be gained, and single ones are read by
	// many workers at once, which would wait for each other's counting.
	minRows = 16

	// headBytes is how many bytes of a row prefetchHead is about, and maxPrefetch how many prefetchRow is, at most.
	headBytes, maxPrefetch = 512, 4 << 10

	// nonTemporalBytes is the length of rows from which on they are written past the caches, and cacheLine what they are a multiple
	// of: a line that two rows have in common would be written twice.
	nonTemporalBytes, cacheLine = 1 << 10, 64

	// prefetchDistance is about how many bytes of rows are prefetched before they are copied.
	prefetchDistance = 8 << 10
)

// Rows copies rows of an array. There is one for each array, as what it has measured is about the array's rows. The zero
// value is ready. It is safe for concurrent use, and must not be copied.
type Rows struct{ choice choice }

// Copy fills dst with rows of src, one after another: those numbered indices, where row i is the size bytes from i*size
// on. The caller has checked that src has such rows. Copy panics if one lies outside all the same, unless i*size overflows, and
// if dst has no room for all.
func (r *Rows) Copy(dst, src []byte, indices []int, size int) {
	r.copy(dst, src, indices, size, false)
}

// CopyNonTemporal is Copy with non-temporal stores, for memory that a device reads next: lines that are in the caches of the cores that
// wrote them it reads at half the speed, see package nontemporal. Only rows of whole cache lines are stored so, from 1
// KiB on.
func (r *Rows) CopyNonTemporal(dst, src []byte, indices []int, size int) {
	past := size >= nonTemporalBytes && size%cacheLine == 0
	r.copy(dst, src, indices, size, past)
	if past {
		nontemporal.Fence()
	}
}

func (r *Rows) copy(dst, src []byte, indices []int, size int, past bool) {
	if !canPrefetch || size < minRowBytes || len(indices) < minRows {
		run(plain, dst, src, indices, size, past)
		return
	}
	way, measured := r.choice.next()
	if !measured {
		run(way, dst, src, indices, size, past)
		return
	}
	began := time.Since(start)
	run(way, dst, src, indices, size, past)
	r.choice.note(way, int64(time.Since(start)-began)<<10/int64(len(indices)))
}

var start = time.Now() // to ask for the time since is cheaper than for the time

func run(way int, dst, src []byte, indices []int, size int, past bool) {
	reach := min(size, maxPrefetch)
	switch way {
	case plain:
		copyRows(dst, src, indices, size, past)
		return
	case prefetchHead:
		reach = min(size, headBytes)
	}
	block := max(prefetchDistance/size, 1)
	prefetch(unsafe.SliceData(src), size, reach, unsafe.SliceData(indices), min(block, len(indices)))
	for len(indices) > 0 {
		now := indices[:min(block, len(indices))]
		if indices = indices[len(now):]; len(indices) > 0 {
			prefetch(unsafe.SliceData(src), size, reach, unsafe.SliceData(indices), min(block, len(indices)))
		}
		copyRows(dst, src, now, size, past)
		dst = dst[len(now)*size:]
	}
}

func copyRows(dst, src []byte, indices []int, size int, past bool) {
	switch {
	case size == 4:
		copyRows4(dst, src, indices)
	case size == 8:
		copyRows8(dst, src, indices)
	case past:
		for k, i := range indices {
			nontemporal.Store(dst[k*size:(k+1)*size], src[i*size:(i+1)*size])
		}
	default:
		for k, i := range indices {
			copy(dst[k*size:(k+1)*size], src[i*size:(i+1)*size])
		}
	}
}

// copyRows4 and copyRows8 are for labels. Without a call for each, a core has many of them on their way from memory.
func copyRows4(dst, src []byte, indices []int) {
	for k, i := range indices {
		native.PutUint32(dst[k*4:(k+1)*4], native.Uint32(src[i*4:(i+1)*4]))
	}
}

func copyRows8(dst, src []byte, indices []int) {
	for k, i := range indices {
		native.PutUint64(dst[k*8:(k+1)*8], native.Uint64(src[i*8:(i+1)*8]))
	}
}

var native = binary.NativeEndian
