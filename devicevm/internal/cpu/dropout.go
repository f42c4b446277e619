package cpu

// This file has dropout. Which elements are dropped is a function of the seed, the number of the run, the
// layer and the element alone: nothing is kept for the gradient, which draws the same numbers again, and any
// number of cores, and any device, drops the same.

import (
	"math/bits"

	"github.com/pintensor/pin/devicevm/internal/plan"
)

// dropout scales what is kept of its operand by 1/(1-p). An element is kept if its random word is below the
// threshold.
func dropout[T float](r *Runner, s *plan.Step, operand int, p float64) func() {
	threshold, factor := plan.Keep(p)
	scale := T(factor)
	return func() {
		x, y := values[T](r.mem, s.In[operand]), values[T](r.mem, s.Out)
		seed, count := r.run.Seed, r.run.Count
		parallel(len(y), grain/4, func(lo, hi int) {
			var words [4]uint32
			for i := lo; i < hi; i++ {
				if i == lo || i%4 == 0 {
					words = philox([4]uint32{uint32(i / 4), uint32(s.Layer), uint32(count), uint32(count >> 32)},
						[2]uint32{uint32(seed), uint32(seed >> 32)})
				}
				if uint64(words[i%4]) < threshold {
					y[i] = x[i] * scale
				} else {
					y[i] = 0
				}
			}
		})
	}
}

// philox is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011), as cuRAND has
// it: four random words for a counter.
func philox(c [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ key[0], lo1, hi0 ^ c[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return c
}
