package pintensor

import (
	"errors"
	"sync"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

func TestMaxCachedGivesUpWhatComesBackBeyondIt(t *testing.T) {
	e := newRig(t, WithMaxCached(3*minBlock))
	var all []*tensor.Dense
	for _, n := range []int{1, 1, minBlock, 2 * minBlock, 4 * minBlock} { // 1, 1, 1, 2 and 4 blocks' worth
		all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, n)))
	}
	if s := e.Stats(); s.Lent.Current != 9*minBlock {
		t.Fatalf("%v: what is lent has no bound", s)
	}
	for i, want := range []int64{1, 2, 3, 3, 3} {
		if err := e.Release(all[i]); err != nil {
			t.Fatal(err)
		}
		if s := e.Stats(); s.Cached.Current != want*minBlock || s.Registered.Current != s.Cached.Current+s.Lent.Current {
			t.Errorf("after %d: %v, want %d blocks cached", i, s, want)
		}
	}
	if s := e.Stats(); s.Trims != 2 {
		t.Errorf("%v, want 2 blocks given up", s)
	}
	if must[*tensor.Dense](t)(e.New(tensor.Uint8, 1)); e.n.cold.Load() != 5 {
		t.Error("what is cached was not lent again")
	}
}

func TestMaxCachedWhileCopiesRun(t *testing.T) {
	e := newRig(t, WithMaxCached(1))
	d, w := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1)), newWork()
	useBy(t, d, w)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if e.host.Calls("Unregister") != 0 {
		t.Fatal("memory was unregistered under a copy")
	}
	w.complete()
	if s := e.Stats(); s.Registered.Current != 0 {
		t.Errorf("%v: want nothing left", s)
	}
}

func TestMaxCachedAndWhatIsDropped(t *testing.T) {
	e := newRig(t, WithMaxCached(1))
	func() { must[*tensor.Dense](t)(e.New(tensor.Uint8, 1)) }()
	gcUntil(t, "it is given up", func() bool { return e.owned.Load() == 0 })
}

func TestMaxCachedTellsTheDriversError(t *testing.T) {
	broken := errors.New("broken")
	e := newRig(t, WithMaxCached(1))
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))
	e.host.FailNth("Unregister", 1, broken)
	if err := e.Release(d); !errors.Is(err, broken) {
		t.Errorf("%v, want the driver's error", err)
	}
	if err := e.Release(d); !errors.Is(err, ErrReleased) {
		t.Errorf("a second time: %v, want ErrReleased", err)
	}
	if freed := must[int64](t)(e.Trim(0)); freed != minBlock {
		t.Errorf("Trim freed %d, want the block that was left", freed)
	}
}

// The bound holds at every moment, and no lock is held while the driver works.
func TestMaxCachedFromManyGoroutines(t *testing.T) {
	h := &fakeHost{name: "cuda"}
	e := newRigOver(t, h, WithMaxCached(3*minBlock))
	var mu sync.Mutex
	var kept []*tensor.Dense
	h.unregistering = func() {
		d, err := e.New(tensor.Uint8, 1) // would not come back if a lock were held
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		kept = append(kept, d)
		mu.Unlock()
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 50 {
				a, err := e.New(tensor.Uint8, 1+g*minBlock/2)
				if err != nil {
					t.Error(err)
					return
				}
				if err := e.Release(a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.unregistering = nil
	if len(kept) == 0 {
		t.Error("nothing was given up")
	}
	for _, d := range kept {
		if err := e.Release(d); err != nil {
			t.Error(err)
		}
	}
	if s := e.Stats(); s.Cached.Peak > 3*minBlock || s.Cached.Current > 3*minBlock {
		t.Errorf("%v: more cached than the bound", s)
	}
}

func TestMaxCachedAndReserve(t *testing.T) {
	e := newRig(t, WithMaxCached(3*minBlock))
	if err := e.Reserve(bg, 1, 4); !errors.Is(err, ErrLimit) || e.Stats().Cold != 0 {
		t.Errorf("%v, with %d made; want ErrLimit and none", err, e.Stats().Cold)
	}
	if err := e.Reserve(bg, 1, 2); err != nil {
		t.Fatal(err)
	}
	if err := e.Reserve(bg, 1, 2); !errors.Is(err, ErrLimit) || e.Stats().Cold != 2 {
		t.Errorf("%v, want ErrLimit: two are cached already", err)
	}
}

// Somebody fills the cache while blocks are made for it.
func TestReserveIntoACacheThatFills(t *testing.T) {
	h := newSlowHost()
	e := newRigOver(t, h, WithMaxCached(minBlock))
	go func() { h.allowed <- struct{}{} }()
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))
	<-h.entered
	result := e.ReserveAsync(bg, 1, 1)
	<-h.entered
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	close(h.allowed)
	if err := <-result; !errors.Is(err, ErrLimit) {
		t.Errorf("%v, want ErrLimit", err)
	}
	if s := e.Stats(); s.Cached.Current != minBlock || s.Registered.Current != minBlock {
		t.Errorf("%v, want one block", s)
	}
}

func TestMaxCachedRefuses(t *testing.T) {
	leak.Check(t)
	if _, err := NewEngine(WithMaxCached(-1)); err == nil || err.Error() != "pintensor: WithMaxCached: bytes is -1, want at least 0" {
		t.Errorf("%v", err)
	}
}
