package spin

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	for _, after := range []int{0, 1, 100, 1000} { // questions that are answered no
		asked := 0
		if !Until(10, 1, func() bool { asked++; return asked > after }) {
			t.Errorf("not told true, asked %d times", asked)
		}
		if asked != after+1 {
			t.Errorf("asked %d times, want %d", asked, after+1)
		}
	}
	asked := 0
	if Until(10, 3, func() bool { asked++; return false }) {
		t.Error("told true")
	}
	if asked != 10*8*16 {
		t.Errorf("asked %d times in 10 rounds, want %d", asked, 10*8*16)
	}
}

// Where there is one core, whoever is waited for gets it.
func TestUntilYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var there atomic.Bool
	go there.Store(true)
	if !Until(100, 5, there.Load) {
		t.Error("the other goroutine did not run")
	}
}

// BenchmarkRound is what the documentation says of a round.
func BenchmarkRound(b *testing.B) {
	began := time.Now()
	Until(b.N, b.N+1, func() bool { return false })
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(b.N), "ns/round")
}
