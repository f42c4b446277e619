package dataloader

// Where random numbers come from: every generator of this package is seeded by a hash of the seed, the
// epoch and the place or sample it is for, so nothing depends on which worker asks, or when, and the
// global generator is never touched.

import "math/rand/v2"

// The streams keep generators for different purposes apart that have the same seed, epoch and index.
const (
	streamShuffle uint64 = iota + 1<<32
	streamWeighted
	streamSample
	streamReplacement
	streamSplit
	streamBuckets
	streamBuffer
	streamRetry
)

// mix is the finaliser of SplitMix64: each bit of x changes half of the bits of the result.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// hash mixes seed, a and b, which may be small and consecutive, into one word.
func hash(seed, a, b, stream uint64) uint64 {
	const golden = 0x9e3779b97f4a7c15
	h := mix(seed + golden)
	h = mix(h ^ (a+golden)*0xd1342543de82ef95)
	return mix(h ^ (b+stream)*golden)
}

// rowRand is the generator of one row of a batch. It is made at the first [Row.Rand] of a slot and
// seeded anew at the first one of each sample, so that a sample that asks for none costs nothing.
type rowRand struct {
	source rand.PCG
	rand   rand.Rand
	turn   uint64 // the buffer's turn for which it was seeded
}

func (r *rowRand) seed(seed uint64, epoch, index int, turn uint64) {
	r.source.Seed(
		hash(seed, uint64(epoch), uint64(index), streamSample),
		hash(^seed, uint64(epoch), uint64(index), streamSample))
	r.rand = *rand.New(&r.source)
	r.turn = turn
}
