package dataloader

// The order of a shuffled epoch: a keyed bijection on [0, n) that is computed place by place, so that
// a shuffle needs no memory that grows with n and any place can be asked for at any time.

import (
	"math/bits"
	"sync/atomic"
)

const (
	// tableLen is the length up to which an order is a table made by Fisher-Yates, in which every
	// permutation is equally likely. A Feistel network over a few bits is not that good: it can
	// only make even permutations.
	tableLen = 1024

	// tabled is how many values a half of the network's word may have for its round functions to be tables: they take
	// 12 KiB then, which the first-level cache has room for, and an epoch's are made in 20 µs. A place takes a third of
	// the time that it takes to compute them. (They are the same functions.)
	tabled = 1 << 10

	// rounds of the Feistel network. Four make a network with good round functions hard to tell from
	// a random permutation (Luby and Rackoff); two more leave a margin for cheap round functions.
	rounds = 6
)

// permutation gives a new order of [0, n) for each epoch. It is safe for concurrent use.
type permutation struct {
	n      int
	seed   uint64
	recent [2]atomic.Pointer[epochOrder] // of the last odd and even epoch asked for; a pure function of seed and epoch
}

// epochOrder is what the order of one epoch is computed from.
type epochOrder struct {
	epoch           int
	table           []uint16 // n <= tableLen
	keys            [rounds]uint64
	tables          atomic.Pointer[[rounds][tabled]uint16] // the round functions, where a half has few values
	lowBits         uint                                   // the network's word is highBits | lowBits, with 2^(both) < 2n
	lowMask, hiMask uint64
}

func newPermutation(n int, seed uint64) *permutation {
	return &permutation{n: n, seed: seed}
}

// order returns what epoch's order is computed from, out of the cache where it can: an epoch and the next
// one are asked for at the same time. Other epochs only cost each other the cached value.
func (p *permutation) order(epoch int) *epochOrder {
	cached := &p.recent[epoch&1]
	if o := cached.Load(); o != nil && o.epoch == epoch {
		return o
	}
	o := newEpochOrder(p.n, p.seed, epoch)
	cached.Store(o)
	return o
}

func newEpochOrder(n int, seed uint64, epoch int) *epochOrder {
	o := &epochOrder{epoch: epoch}
	// Words by hash rather than by a generator of the library, whose details may change: an order must
	// be the same in the process that a checkpoint is restored in.
	word := func(i int) uint64 { return hash(seed, uint64(epoch), uint64(i), streamShuffle) }
	if n <= tableLen {
		o.table = make([]uint16, n)
		for i := range o.table {
			j := reduce(word(i), i+1)
			o.table[i] = o.table[j]
			o.table[j] = uint16(i)
		}
		return o
	}
	for i := range o.keys {
		o.keys[i] = word(i)
	}
	width := uint(bits.Len64(uint64(n - 1)))
	o.lowBits = width / 2
	o.lowMask = 1<<o.lowBits - 1
	o.hiMask = 1<<(width-o.lowBits) - 1
	return o
}

// tabulated returns the round functions as tables, made when they are first asked for, or nil if they are too large.
func (o *epochOrder) tabulated() *[rounds][tabled]uint16 {
	if o.hiMask >= tabled {
		return nil
	}
	if t := o.tables.Load(); t != nil {
		return t
	}
	t := new([rounds][tabled]uint16)
	for i := 0; i < rounds; i += 2 {
		for v := range o.lowMask + 1 {
			t[i][v] = uint16(scramble(v, o.keys[i]) & o.hiMask)
		}
		for v := range o.hiMask + 1 {
			t[i+1][v] = uint16(scramble(v, o.keys[i+1]) & o.lowMask)
		}
	}
	o.tables.Store(t)
	return t
}

// fill sets dst to the indices at the places start, start+step, ... of an order of [0, n). It makes a first pass without
// a branch, in which a processor works on several places at once: place by place an order would take a seventh of
// the time that copying small samples does.
func (o *epochOrder) fill(n uint64, start, step int, dst []int) {
	if o.table != nil {
		for i := range dst {
			dst[i] = int(o.table[start+i*step])
		}
		return
	}
	if t := o.tabulated(); t != nil {
		o.lookUp(t, start, step, dst)
	} else {
		o.compute(start, step, dst)
	}
	for i, k := range dst {
		if uint64(k) >= n {
			dst[i] = o.at(n, uint64(k)) // on along the cycle
		}
	}
}

// lookUp makes one pass through the network for each place, with tables.
func (o *epochOrder) lookUp(t *[rounds][tabled]uint16, start, step int, dst []int) {
	low, lowMask := o.lowBits&63, o.lowMask
	for i, k := 0, uint64(start); i < len(dst); i, k = i+1, k+uint64(step) {
		hi, lo := k>>low, k&lowMask
		hi ^= uint64(t[0][lo%tabled])
		lo ^= uint64(t[1][hi%tabled])
		hi ^= uint64(t[2][lo%tabled])
		lo ^= uint64(t[3][hi%tabled])
		hi ^= uint64(t[4][lo%tabled])
		lo ^= uint64(t[5][hi%tabled])
		dst[i] = int(hi<<low | lo)
	}
}

// compute makes one pass through the network for each place.
func (o *epochOrder) compute(start, step int, dst []int) {
	low := o.lowBits & 63 // as it is; a shift by a number that may be larger takes longer
	lowMask, hiMask := o.lowMask, o.hiMask
	k0, k1, k2, k3, k4, k5 := o.keys[0], o.keys[1], o.keys[2], o.keys[3], o.keys[4], o.keys[5]
	for i, k := 0, uint64(start); i < len(dst); i, k = i+1, k+uint64(step) {
		hi, lo := k>>low, k&lowMask
		hi ^= scramble(lo, k0) & hiMask
		lo ^= scramble(hi, k1) & lowMask
		hi ^= scramble(lo, k2) & hiMask
		lo ^= scramble(hi, k3) & lowMask
		hi ^= scramble(lo, k4) & hiMask
		lo ^= scramble(hi, k5) & lowMask
		dst[i] = int(hi<<low | lo)
	}
}

// at returns the index at place k of an order of [0, n), 0 <= k < n.
func (o *epochOrder) at(n uint64, k uint64) int {
	if o.table != nil {
		return int(o.table[k])
	}
	// The network permutes [0, 2^bits), and n is more than half of that. Following its cycle from a
	// place below n until the value is below n again is a permutation of [0, n), and takes fewer than
	// two steps on average.
	for {
		k = o.encrypt(k)
		if k < n {
			return int(k)
		}
	}
}

func (o *epochOrder) encrypt(x uint64) uint64 {
	if t := o.tables.Load(); t != nil {
		var one [1]int
		o.lookUp(t, int(x), 0, one[:])
		return uint64(one[0])
	}
	hi, lo := x>>o.lowBits, x&o.lowMask
	for i := 0; i < rounds; i += 2 {
		hi ^= scramble(lo, o.keys[i]) & o.hiMask
		lo ^= scramble(hi, o.keys[i+1]) & o.lowMask
	}
	return hi<<o.lowBits | lo
}

// scramble is the round function: it need not be invertible. Its low bits depend on all of v and key.
func scramble(v, key uint64) uint64 {
	v = (v + key) * 0x9e3779b97f4a7c15
	v ^= v >> 32
	v *= 0xd6e8feb86659fd93
	return v >> 32
}
