// Package nontemporal copies memory past the caches, for what the host does not read soon but a device does.
//
// What copy has written lies in the caches of the core that wrote it, and a device that reads it has to be given it by
// that core, line by line: on an H200's host 4 MiB that eight cores have written arrive at 24 GB/s, and at 41 past the
// caches. The host gains too, which need not read what it is about to overwrite: 35 GB/s instead of 29.
// Go's own copy writes past the caches from 1 MiB on, but not on Intel's processors with a fast string move (go1.26,
// runtime/memmove_amd64.s).
package nontemporal

// Copy copies src to dst, which have the same length and nothing in common. It is complete for devices and other
// goroutines when it returns. Where there is no way past the caches it is Go's copy.
func Copy(dst, src []byte) {
	Store(dst, src)
	Fence()
}

// Store is Copy for one of many pieces: they are complete after a Fence.
func Store(dst, src []byte) {
	if len(dst) != len(src) {
		panic("nontemporal: dst and src differ in length")
	}
	store(dst, src)
}

// Fence completes what this goroutine has stored, in the sense of Copy.
func Fence() { fence() }
