package dataloader

import (
	"testing"
)

// A worker waits for the slot that it has filled last only where that has been of use lately.
func TestWarmWait(t *testing.T) {
	var h warm
	asked := 0
	never, always := func() bool { asked++; return false }, func() bool { asked++; return true }
	waits := 0
	for n := range 2000 {
		before := asked
		if h.wait(never) {
			t.Fatal("waited for something that never came, and was told that it had")
		}
		if asked > before {
			waits++
		}
		if n == 0 && waits != 1 {
			t.Error("the first time it does not wait at all")
		}
	}
	if most := 2000/mostVain + 8; waits > most || waits < 2000/mostVain/2 {
		t.Errorf("%d of 2000 waits that were in vain were not left out, want about %d", waits, 2000/mostVain)
	}
	if asked != waits*moment {
		t.Errorf("asked %d times in %d waits, want %d each", asked, waits, moment)
	}
	for range mostVain + 1 {
		h.wait(always)
	}
	before := asked
	for range 10 {
		if !h.wait(always) {
			t.Error("a wait was left out though the last one was of use")
		}
	}
	if asked != before+10 {
		t.Errorf("asked %d times, want once a wait", asked-before)
	}
}

// The slot that was filled last is taken where it is back.
func TestWarmerTakesTheLastOne(t *testing.T) {
	l := newLoader(t, counting(1), Config{BatchSize: 1, Workers: 1})
	r := newRun(t.Context(), l, position{})
	defer r.shut()
	w := r.crew[0]
	last, other := r.adopt(false), r.adopt(false)
	w.warm.last = last
	if got := w.warmer(last); got != last {
		t.Error("the slot that was filled last is there, and another is taken")
	}
	if got := w.warmer(other); got != other {
		t.Error("the slot that was filled last is with the loop, and something else than what there is was taken")
	}
	w.warm.pause = 0
	r.push(last)
	if got := w.warmer(other); got != last {
		t.Error("the slot that was filled last is back, and another is taken")
	}
	r.mu.Lock()
	if len(r.idle) != 1 || r.idle[0] != other {
		t.Errorf("%d idle slots: want the one that was not taken", len(r.idle))
	}
	r.mu.Unlock()
}
