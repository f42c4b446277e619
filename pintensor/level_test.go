package pintensor

// This file tests levels.

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func newLevel(shelves int) *level {
	l := new(level)
	for range shelves {
		l.rooms = append(l.rooms, new(atomic.Int64))
	}
	return l
}

// As long as one goroutine at a time changes it, a level is what a counter and its maximum are, whatever shelves are used.
// With slack its maximum is not said to be more, nor to be less by more than the most slack.
func TestLevelIsACounterWithItsMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 100_500
		l := newLevel(rapid.IntRange(1, 5).Draw(t, "shelves"))
		at := rapid.Map(rapid.IntRange(0, len(l.rooms)-1), func(i int) uint8 { return uint8(i) })
		var now, peak int64
		crowded := rapid.Bool().Draw(t, "crowded")
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.SampledFrom([]int64{0, 1, 30, 200, 400, 100_000}).Draw(t, "n")
			switch {
			case rapid.Bool().Draw(t, "lower"):
				n = min(n, now)
				l.lower(at.Draw(t, "at"), n)
				now -= n
			case rapid.Bool().Draw(t, "bounded"):
				may := now+n <= most || n == 0
				if l.raiseTo(at.Draw(t, "at"), n, most) != may {
					t.Fatalf("raised from %d by %d: %v, at most %d", now, n, !may, most)
				}
				if may {
					now += n
				}
			case crowded && l.useSlack(n, shut):
				now += n
			default:
				l.raise(at.Draw(t, "at"), n)
				now += n
			}
			peak = max(peak, now)
			if crowded && !rapid.Bool().Draw(t, "look") {
				continue
			}
			if got := l.usage(7); got.Current != now || got.Total != 7 || got.Peak > peak || got.Peak < now || got.Peak < peak-l.mostSlack() || !crowded && got.Peak < peak {
				t.Fatalf("usage is %v, want %v", got, Usage{now, peak, 7})
			}
		}
		if s := l.slack; s < 0 || s > l.mostSlack() {
			t.Fatalf("slack is %d, want at most %d", s, l.mostSlack())
		}
		for i, r := range l.rooms {
			if r.Load() < 0 {
				t.Fatalf("shelf %d has room of %d", i, r.Load())
			}
		}
	})
}

// What the slack hides is known again when the level is read as high, and when it reaches the top.
func TestLevelFindsItsPeakAgain(t *testing.T) {
	l := newLevel(3)
	for range 3 {
		if !l.useSlack(100, shut) {
			t.Fatal("no slack")
		}
	}
	l.lower(1, 100)
	if got := l.usage(0); got != (Usage{200, 200, 0}) {
		t.Errorf("read at 200 of 300: %v", got)
	}
	l.raise(2, 150)
	l.lower(2, 350)
	if got := l.usage(0); got != (Usage{0, 350, 0}) {
		t.Errorf("after the top was reached: %v", got)
	}
	for l.useSlack(100, shut) {
	}
	if l.slack > l.mostSlack() || l.slack+100 <= l.mostSlack() {
		t.Errorf("slack of %d, want about %d", l.slack, l.mostSlack())
	}
}

// A level that went above its bound once is not slow for ever, and its peak is not forgotten.
func TestLevelComesBackBelowItsBound(t *testing.T) {
	l := newLevel(3)
	l.raise(0, 500)
	l.lower(1, 500)
	if l.raiseTo(2, 101, 100) {
		t.Error("raised to 101, at most 100")
	}
	if !l.raiseTo(2, 100, 100) || l.top.Load() != 100 {
		t.Errorf("the top is %d, want 100", l.top.Load())
	}
	if got := l.usage(0); got != (Usage{100, 500, 0}) {
		t.Errorf("%v, want 100 and a peak of 500", got)
	}
	l.lower(2, 100)
	if got := l.usage(0); got != (Usage{0, 500, 0}) {
		t.Errorf("%v, want 0 and a peak of 500", got)
	}
}

// Many goroutines raise and lower a level, all together never by more than a semaphore lets them: nothing is lost, and the
// peak is at most that. Amounts of different goroutines differ, and what one raises another may lower.
func TestLevelOfManyGoroutines(t *testing.T) {
	const goroutines, most = 8, 3
	l := newLevel(goroutines)
	permits, lower := make(chan struct{}, most), make(chan uint8, most)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 5000 {
				permits <- struct{}{}
				l.raise(uint8(g), 10)
				lower <- uint8(g)
				if r.IntN(4) == 0 {
					runtime.Gosched()
				}
				l.lower(<-lower, 10)
				<-permits
			}
		})
	}
	wg.Wait()
	u := l.usage(0)
	if u.Current != 0 || u.Peak < 10 || u.Peak > 10*most {
		t.Errorf("at the end the level is %d, want 0, and its peak %d, want 10 to %d", u.Current, u.Peak, 10*most)
	}
}

// A bound holds whoever raises, and what is refused changes nothing.
func TestLevelKeepsItsBound(t *testing.T) {
	const goroutines, most = 8, 25
	l := newLevel(goroutines)
	var now, refused atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range 5000 {
				if !l.raiseTo(uint8(g), 10, most) {
					refused.Add(1)
					runtime.Gosched()
					continue
				}
				if n := now.Add(10); n > most {
					t.Errorf("raised to %d, at most %d", n, most)
				}
				now.Add(-10)
				l.lower(uint8(g), 10)
			}
		})
	}
	wg.Wait()
	if u := l.usage(0); u.Current != 0 || u.Peak > most {
		t.Errorf("at the end %v, want 0 and a peak of at most %d", u, most)
	}
}

// BenchmarkLevel raises and lowers by one block, each goroutine on its own shelf.
func BenchmarkLevel(b *testing.B) {
	for _, g := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("goroutines=%d", g), func(b *testing.B) {
			e := benchEngine(b)
			e.divide(g)
			inParallel(b, g, func(i int) error {
				e.n.lent.raise(uint8(i), 256)
				e.n.lent.lower(uint8(i), 256)
				return nil
			})
		})
	}
}
