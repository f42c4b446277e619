package pintensor

import (
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

// inTime runs test with an engine and a clock that only sleeping moves.
func inTime(t *testing.T, test func(t *testing.T, e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := must[*Engine](t)(NewEngine(WithDriver(&fakeHost{name: "cuda"})))
		e.smallest = minBlock
		test(t, e)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if owned := e.owned.Load(); owned != 0 {
			t.Errorf("%d bytes are left", owned)
		}
	})
}

// give lends tensors and releases them, in order.
func give(t *testing.T, e *Engine, sizes ...int) {
	t.Helper()
	var all []*tensor.Dense
	for _, n := range sizes {
		all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, n)))
	}
	for _, d := range all {
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
}

func trimOlder(t *testing.T, e *Engine, d time.Duration, want int64) {
	t.Helper()
	before := e.Stats()
	if freed := must[int64](t)(e.TrimOlder(d)); freed != want {
		t.Errorf("TrimOlder(%v) freed %d bytes, want %d", d, freed, want)
	}
	s := e.Stats()
	if s.Cached.Current != before.Cached.Current-want || s.Registered.Current != before.Registered.Current-want {
		t.Errorf("TrimOlder(%v): %v; before %v", d, s, before)
	}
}

func TestTrimOlder(t *testing.T) {
	leak.Check(t)
	inTime(t, func(t *testing.T, e *Engine) {
		const large = 1 << 20 // not cached by core
		give(t, e, 1, large)
		time.Sleep(time.Hour)
		trimOlder(t, e, time.Second, 0) // the first: what is cached is new
		time.Sleep(time.Minute)
		give(t, e, 2*minBlock)
		time.Sleep(time.Minute)
		trimOlder(t, e, 2*time.Minute+1, 0)
		trimOlder(t, e, 2*time.Minute, minBlock+large)
		trimOlder(t, e, 2*time.Minute, 0)
		trimOlder(t, e, 0, 2*minBlock)
	})
}

func TestTrimOlderOfZeroIsAllAlsoAtFirst(t *testing.T) {
	leak.Check(t)
	inTime(t, func(t *testing.T, e *Engine) {
		give(t, e, 1, 1, 1<<20)
		trimOlder(t, e, 0, 2*minBlock+1<<20)
	})
}

// Lending makes a block new again, and those that a program goes on using are always the same.
func TestTrimOlderKeepsWhatIsInUse(t *testing.T) {
	leak.Check(t)
	for _, size := range []int{minBlock, 1 << 20} {
		inTime(t, func(t *testing.T, e *Engine) {
			e.shelves = e.shelves[:1] // each core goes on using blocks of its own
			trimOlder(t, e, time.Minute, 0)
			give(t, e, size, size, size, size)
			for range 6 {
				time.Sleep(10 * time.Second)
				give(t, e, size, size)
			}
			trimOlder(t, e, time.Minute, 2*int64(size))
			trimOlder(t, e, time.Minute, 0)
			if s := e.Stats(); s.Cold != 4 {
				t.Errorf("%v", s)
			}
		})
	}
}

func TestTrimOlderLeavesCopiesAndWhatIsLentAlone(t *testing.T) {
	leak.Check(t)
	inTime(t, func(t *testing.T, e *Engine) {
		trimOlder(t, e, time.Minute, 0)
		lent, copied := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1)), must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))
		w := newWork()
		useBy(t, copied, w)
		if err := e.Release(copied); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		trimOlder(t, e, time.Minute, 0)
		w.complete()
		trimOlder(t, e, time.Minute, 0) // it is cached from now on
		time.Sleep(time.Minute)
		trimOlder(t, e, time.Minute, minBlock)
		if err := e.Release(lent); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTrimOlderKeepsWhatIsReserved(t *testing.T) {
	leak.Check(t)
	inTime(t, func(t *testing.T, e *Engine) {
		trimOlder(t, e, time.Minute, 0)
		time.Sleep(time.Hour)
		if err := e.Reserve(bg, 1, 3); err != nil {
			t.Fatal(err)
		}
		trimOlder(t, e, time.Minute, 0)
		time.Sleep(time.Minute)
		trimOlder(t, e, time.Minute, 3*minBlock)
	})
}

func TestTrimOlderWhenTheDriverFails(t *testing.T) {
	broken := errors.New("broken")
	e := newRig(t)
	give(t, e.Engine, 1, 1, 1)
	e.host.FailNth("Unregister", 2, broken)
	if freed, err := e.TrimOlder(0); freed != 2*minBlock || !errors.Is(err, broken) {
		t.Errorf("%d, %v, want the other blocks freed and the driver's error", freed, err)
	}
	if freed := must[int64](t)(e.TrimOlder(time.Hour)); freed != minBlock {
		t.Errorf("a second time %d freed, want the block that was left", freed)
	}
}

func TestTrimOlderRefuses(t *testing.T) {
	e := newRig(t)
	if _, err := e.TrimOlder(-time.Second); err == nil || err.Error() != "pintensor: TrimOlder: d is -1s, want at least 0" {
		t.Errorf("%v", err)
	}
	if freed, err := e.TrimOlder(math.MaxInt64); freed != 0 || err != nil {
		t.Errorf("for ever: %d, %v", freed, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.TrimOlder(0); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v, want ErrClosed", err)
	}
}

// No lock is held while the driver works, and blocks are lent and cached meanwhile.
func TestTrimOlderFromManyGoroutines(t *testing.T) {
	h := &fakeHost{name: "cuda"}
	e := newRigOver(t, h)
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
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				for _, n := range []int{1, minBlock * g, 300 << 10} {
					d, err := e.New(tensor.Uint8, n)
					if err == nil {
						err = e.Release(d)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
				if i%10 == g {
					if _, err := e.TrimOlder(time.Duration(g) * time.Microsecond); err != nil {
						t.Error(err)
					}
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
}

// TrimOlder gives one block up at a time: the others can be lent until it comes to them.
func TestTrimOlderLeavesTheRestToBeLent(t *testing.T) {
	h := &fakeHost{name: "cuda"}
	e := newRigOver(t, h)
	give(t, e.Engine, 1<<20, 1<<20, 1<<20)
	var d *tensor.Dense
	h.unregistering = func() {
		h.unregistering = nil
		d = must[*tensor.Dense](t)(e.New(tensor.Uint8, 1<<20))
	}
	if freed := must[int64](t)(e.TrimOlder(0)); freed != 2<<20 || e.Stats().Cold != 3 {
		t.Errorf("%d bytes freed, %v; want 2 blocks, and the third lent", freed, e.Stats())
	}
	if err := e.Release(d); err != nil {
		t.Error(err)
	}
}

// BenchmarkNewReleaseAging is BenchmarkNewRelease in a program that calls TrimOlder now and then.
func BenchmarkNewReleaseAging(b *testing.B) {
	e := benchEngine(b)
	if _, err := e.TrimOlder(0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		d, err := e.New(tensor.Float32, 16, 16)
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Release(d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTrimOlder looks at a cache in which nothing is old.
func BenchmarkTrimOlder(b *testing.B) {
	e := benchEngine(b)
	if err := e.Reserve(bg, 1, 1000); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if freed, err := e.TrimOlder(time.Hour); freed != 0 || err != nil {
			b.Fatal(freed, err)
		}
	}
}
