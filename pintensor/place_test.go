package pintensor

// This file tests the numbers of cores.

import (
	"runtime"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

// Numbers of places that are gone are used again, and no two places have one.
func TestPlacesHaveNumbersOfTheirOwn(t *testing.T) {
	leak.Check(t)
	have := map[uint32]*place{}
	for range 20 {
		p := newPlace()
		if have[p.n] != nil {
			t.Fatalf("two places have the number %d", p.n)
		}
		have[p.n] = p
	}
	runtime.KeepAlive(have)
	have = nil
	var next uint32
	gcUntil(t, "the numbers are free", func() bool {
		numbers.mu.Lock()
		defer numbers.mu.Unlock()
		next = numbers.next
		return len(numbers.free) >= 20
	})
	for range 20 {
		if p := newPlace(); p.n >= next {
			t.Fatalf("number %d, of which there was none, while 20 are free", p.n)
		}
	}
}
