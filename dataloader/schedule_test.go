package dataloader

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Two things to do came while a worker was looking, which so was not told of by a signal: whoever takes the first wakes
// another for the second.
func TestWorkIsPassedOn(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLoader(t, counting(100), Config{BatchSize: 1, Workers: 3, Prefetch: 5, Pin: e})
		r := newRun(t.Context(), l, position{})
		r.looping, r.tokens = true, 0
		got := make(chan task, 2)
		for _, w := range r.crew[1:] {
			go func() {
				if task, ok := r.pick(w); ok {
					got <- task
				}
			}()
		}
		synctest.Wait()
		r.mu.Lock()
		if r.waiting.Load() != 2 || r.spinning.Load() != 0 {
			t.Errorf("%d workers wait and %d look, want 2 and none", r.waiting.Load(), r.spinning.Load())
		}
		r.spinning.Store(1)
		r.mu.Unlock()
		r.returnKept()
		r.returnKept()
		synctest.Wait()
		if len(got) != 0 {
			t.Error("a worker was woken though another was looking")
		}
		r.mu.Lock()
		r.spinning.Store(0)
		r.mu.Unlock()
		if first, ok := r.pick(r.crew[0]); !ok || first.place != 0 {
			t.Errorf("%+v, %v", first, ok)
		}
		synctest.Wait()
		if len(got) != 1 || (<-got).place != 1 {
			t.Error("the second batch was left, with workers waiting")
		}
		r.live = 3 // as if launch had started them
		for _, w := range r.crew {
			w.live = true
		}
		r.shut()
		for _, w := range r.crew {
			r.pick(w)
		}
		if !r.ended() {
			t.Error("the run has not ended")
		}
		r.collect()
	})
}

// A depth that is reduced gives its memory back.
func TestReducedDepth(t *testing.T) {
	l := newLoader(t, counting(400), Config{BatchSize: 1, Workers: 2})
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch b.Index {
		case 20:
			l.tuner.change(l.run, setting{2, 12})
			for began := time.Now(); l.Stats().Slots < 13 && time.Since(began) < 10*time.Second; {
				time.Sleep(time.Millisecond)
			}
			if n := l.Stats().Slots; n != 13 {
				t.Errorf("%d slots, want 13", n)
			}
		case 40:
			l.tuner.change(l.run, setting{2, 4})
		case 60: // all slots that there were have come back since
			l.run.mu.Lock()
			if n := len(l.run.slots); n > 5 {
				t.Errorf("%d slots 20 batches after the depth was reduced to 4", n)
			}
			l.run.mu.Unlock()
		}
	}
	if s := l.Stats(); s.Slots > 5 {
		t.Errorf("%d slots for 4 batches ahead and one in hand", s.Slots)
	}
}

// A worker that goes to sleep just when the loop gives memory back, and does not wake it, sees that.
func TestNoMemoryIsOverlooked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l := newLoader(t, counting(60_000), Config{BatchSize: 1, Workers: 1, Prefetch: 1})
	for b, err := range l.Batches(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Index == 0 {
			l.run.mu.Lock()
			l.run.spinners = 0 // each batch puts the worker to sleep
			l.run.mu.Unlock()
		}
	}
}

// The loop spins for long only through waits that are usually short, and on a core that no worker could use.
func TestPatience(t *testing.T) {
	l := newLoader(t, counting(1), Config{BatchSize: 1, Workers: 2, Prefetch: 1})
	r := newRun(t.Context(), l, position{})
	defer r.shut()
	for _, c := range []struct {
		usual time.Duration
		cores int
		want  int
	}{{0, 3, longSpin}, {maxSpinWait - 1, 3, longSpin}, {maxSpinWait, 3, shortSpin}, {0, 2, shortSpin}, {time.Second, 2, shortSpin}} {
		r.averageWait, r.cores = c.usual, c.cores
		if got, yield := r.spinBudget(); got != c.want || (yield == 1) != (c.want == shortSpin) {
			t.Errorf("waits of %v, 2 workers on %d cores: %d rounds, others run after each %d, want %d rounds", c.usual, c.cores, got, yield, c.want)
		}
	}
}

// What is usual follows the waits.
func TestUsualWait(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		slow := FromFunc(40, countFields, func(_ context.Context, i int, row Row) error {
			time.Sleep(time.Millisecond)
			write(i, row)
			return nil
		})
		l := newLoader(t, slow, Config{BatchSize: 1, Workers: 1, SingleEpoch: true, Pin: e})
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if usual := l.run.averageWait; b.Index == 0 && usual >= maxSpinWait || b.Index == 39 && (usual < maxSpinWait || usual > time.Millisecond) {
				t.Errorf("batch %d: usually %v", b.Index, usual)
			}
		}
		once := FromFunc(40, countFields, func(_ context.Context, i int, row Row) error {
			if time.Sleep(10 * time.Microsecond); i == 20 {
				time.Sleep(150 * time.Millisecond)
			}
			write(i, row)
			return nil
		})
		l = newLoader(t, once, Config{BatchSize: 1, Workers: 1, SingleEpoch: true, Pin: e})
		for b, err := range l.Batches(t.Context()) {
			if err != nil || l.run.averageWait >= maxSpinWait {
				t.Errorf("batch %v: usually %v, %v: one slow sample is not usual", b, l.run.averageWait, err)
			}
		}
	})
}

// No slot more than the run began with is got before those have their memory: it could be what is missing for them.
func TestTheFirstSlotsHaveMemoryFirst(t *testing.T) {
	e := newEngine(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLoader(t, counting(10), Config{BatchSize: 1, Workers: 2, Prefetch: 4, Pin: e})
		r := newRun(t.Context(), l, position{})
		r.mu.Lock()
		r.looping, r.spinners, r.base = true, 0, 1
		first := r.take()
		r.mu.Unlock()
		picked := make(chan task, 1)
		go func() {
			next, _ := r.pick(r.crew[1])
			picked <- next
		}()
		waits := func(when string) {
			t.Helper()
			synctest.Wait()
			if len(picked) > 0 {
				t.Errorf("%s: the other worker does %+v", when, <-picked)
			}
		}
		waits("the first slot is to come")
		s := r.adopt(true)
		waits("the first slot has no memory")
		r.furnished()
		if next := <-picked; !next.expand || first.s != nil {
			t.Errorf("the first slot has memory: %+v, want one more", next)
		}
		if err := r.release(s, true); err != nil {
			t.Error(err)
		}
		r.shut()
		r.collect()
	})
}
