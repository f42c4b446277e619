package kernels

// This file tests division by numbers that the host knows.

import (
	"math/bits"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"pgregory.net/rapid"
)

// quotient is what kernels compute.
func (d Divisor) quotient(n uint32) uint32 {
	if d.By == 1 {
		return n
	}
	high, _ := bits.Mul32(n, d.Multiplier)
	return high >> d.Shift
}

func TestDivisor(t *testing.T) {
	leak.Check(t)
	test := func(t interface{ Errorf(string, ...any) }, n, by uint32) {
		if got := NewDivisor(by).quotient(n); got != n/by {
			t.Errorf("%d / %d is %d, want %d", n, by, got, n/by)
		}
	}
	edges := []uint32{1, 2, 3, 5, 7, 9, 28, 641, 1<<15 - 1, 1 << 16, 1<<16 + 1, 1<<30 - 1, 1 << 30, 1<<30 + 1, MaxElements - 1, MaxElements}
	for _, by := range edges {
		for _, n := range edges {
			for _, n := range []uint32{n - 1, n, n / by * by, max(n/by*by, 1) - 1} {
				test(t, n, by)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		test(t, rapid.Uint32Range(0, MaxElements).Draw(t, "n"), rapid.Uint32Range(1, MaxElements).Draw(t, "by"))
	})
}
