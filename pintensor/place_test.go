package pintensor

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
	most := uint32(0)
	for n := range have {
		most = max(most, n)
	}
	runtime.KeepAlive(have)
	have = nil
	gcUntil(t, "the numbers are free", func() bool {
		numbers.mu.Lock()
		defer numbers.mu.Unlock()
		return len(numbers.free) >= 20
	})
	for range 20 {
		if p := newPlace(); p.n > most {
			t.Fatalf("number %d while some up to %d are free", p.n, most)
		}
	}
}
