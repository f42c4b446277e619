package pintensor

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"unsafe"
	"weak"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
)

// small lends n tensors of the given bytes.
func small(t testing.TB, e *Engine, n, bytes int) []*tensor.Dense {
	t.Helper()
	all := make([]*tensor.Dense, n)
	for i := range all {
		all[i] = must[*tensor.Dense](t)(e.New(tensor.Uint8, bytes))
	}
	return all
}

func releaseAll(t testing.TB, e *Engine, all []*tensor.Dense) {
	t.Helper()
	for _, d := range all {
		if err := e.Release(d); err != nil {
			t.Error(err)
		}
	}
}

func TestSmallBlocksShareRegistrations(t *testing.T) {
	e := newCarvingRig(t)
	one := small(t, e.Engine, 1, 4<<10)
	if s := e.Stats(); s.Lent.Current != 4<<10 || s.Registered.Current != minSegment || s.Cached.Current != minSegment-4<<10 {
		t.Errorf("one tensor: %v, want a segment of %d bytes", s, minSegment)
	}
	all := append(one, small(t, e.Engine, 999, 4<<10)...)
	s := e.Stats()
	if n := e.host.Calls("Register"); n > 12 || s.Cold != int64(n) || s.Warm+s.Cold != 1000 {
		t.Errorf("%d registrations for 1000 tensors, want at most 12; %v", n, s)
	}
	if s.Registered.Current > s.Lent.Current+maxSegment || s.Registered.Current != s.Lent.Current+s.Cached.Current {
		t.Errorf("%v: more than a segment beyond what is lent", s)
	}
	lines := make(map[uintptr]bool)
	for _, d := range all {
		if base(d)%blockAlign != 0 || lines[base(d)] || cap(d.Raw) != len(d.Raw) {
			t.Fatalf("memory at %#x, with room for %d", base(d), cap(d.Raw))
		}
		lines[base(d)] = true
	}
	releaseAll(t, e.Engine, all)
	if freed := must[int64](t)(e.Trim(0)); freed != s.Registered.Current || e.Stats().Registered.Current != 0 {
		t.Errorf("Trim freed %d, want %d", freed, s.Registered.Current)
	}
}

func TestADroppedSmallTensorComesBack(t *testing.T) {
	for name, neighbours := range map[string]func(*Engine) *tensor.Dense{
		"alone":                    func(*Engine) *tensor.Dense { return nil },
		"beside one released":      func(e *Engine) *tensor.Dense { releaseAll(t, e, small(t, e, 1, 300)); return nil },
		"released after it":        func(e *Engine) *tensor.Dense { return small(t, e, 1, 300)[0] },
		"beside many released":     func(e *Engine) *tensor.Dense { releaseAll(t, e, small(t, e, 500, 300)); return nil },
		"in a segment of its kind": func(e *Engine) *tensor.Dense { small(t, e, 200, 300); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := newCarvingRig(t)
			later := neighbours(e.Engine)
			func() { small(t, e.Engine, 1, 300) }()
			if later != nil {
				releaseAll(t, e.Engine, []*tensor.Dense{later})
				later = nil
			}
			gcUntil(t, "nothing is lent", func() bool { return e.Stats().Lent.Current == 0 })
			if s := e.Stats(); s.Forgotten != s.Reclaimed || s.Reclaimed == 0 || s.Cached.Current != s.Registered.Current {
				t.Errorf("%v, with %d reclaimed", s, s.Reclaimed)
			}
		})
	}
}

// A view of one block keeps its segment, and so what was dropped beside it, but not for long after it is gone.
func TestWhatIsDroppedBesideAViewComesBackWithIt(t *testing.T) {
	e := newCarvingRig(t)
	view := func() *tensor.Dense {
		all := small(t, e.Engine, 50, 600)
		for _, d := range all {
			d.Memset(byte(7))
		}
		return slice(t, all[10], tensor.S(100, 500))
	}()
	churn(t, e.Engine)
	for i, x := range view.Raw {
		if x != 7 {
			t.Fatalf("byte %d of the view is %d", i, x)
		}
	}
	retained := e.Stats().Lent.Current
	if retained == 0 || retained > maxSegment {
		t.Errorf("the view keeps %d bytes, want some, and at most a segment", retained)
	}
	view = nil
	gcUntil(t, "nothing is lent", func() bool { return e.Stats().Lent.Current == 0 })
}

func TestDroppedSmallTensorsComeBackAtTheLimit(t *testing.T) {
	e := newCarvingRig(t, WithLimit(256<<10))
	for range 1000 {
		small(t, e.Engine, 1, 3000) // and drops it
	}
	kept := small(t, e.Engine, 1, 3000)
	for range 100 {
		small(t, e.Engine, 1, 3000)
	}
	releaseAll(t, e.Engine, kept)
	if s := e.Stats(); s.Registered.Peak > 256<<10 {
		t.Errorf("%v: beyond the limit", s)
	}
}

func TestALimitSmallerThanASegment(t *testing.T) {
	e := newCarvingRig(t, WithLimit(1000))
	all := small(t, e.Engine, 3, 256)
	_, err := e.New(tensor.Uint8, 256)
	var le *LimitError
	if !errors.As(err, &le) || *le != (LimitError{Limit: 1000, Asked: 256, Lent: 768}) {
		t.Errorf("%v, want ErrLimit with the figures", err)
	}
	releaseAll(t, e.Engine, all)
	if d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 700)); e.Stats().Registered.Peak > 1000 {
		t.Error("beyond the limit")
	} else if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

// A driver that has memory for a block has no need to have some for a segment.
func TestADriverWithLittleMemory(t *testing.T) {
	e := newRigOver(t, &fakeHost{name: "cuda", capacity: 4 << 10})
	e.smallest = 0
	all := small(t, e.Engine, 4, 1<<10)
	if _, err := e.New(tensor.Uint8, 1<<10); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("%v, want out of memory", err)
	}
	releaseAll(t, e.Engine, all)
}

// Small segments leave room for what is larger.
func TestSegmentsLeaveRoomUnderALimit(t *testing.T) {
	e := newCarvingRig(t, WithLimit(1<<20))
	all := small(t, e.Engine, 64, 1<<10)
	all = append(all, small(t, e.Engine, 1, 7<<17)...)
	releaseAll(t, e.Engine, all)
}

func TestTrimLeavesSegmentsInUse(t *testing.T) {
	e := newCarvingRig(t)
	all := small(t, e.Engine, 16, 4<<10) // two segments
	releaseAll(t, e.Engine, all[1:])
	if freed := must[int64](t)(e.Trim(0)); freed != minSegment {
		t.Errorf("Trim freed %d, want the segment of %d that is not in use", freed, minSegment)
	}
	all[0].Memset(byte(3))
	if s := e.Stats(); s.Cached.Current != minSegment-4<<10 || s.Registered.Current != minSegment {
		t.Errorf("%v", s)
	}
	if err := e.Release(all[0]); err != nil {
		t.Fatal(err)
	}
	if freed := must[int64](t)(e.TrimOlder(0)); freed != minSegment {
		t.Errorf("TrimOlder freed %d, want %d", freed, minSegment)
	}
}

func TestCloseGivesASegmentUpWithItsLastBlock(t *testing.T) {
	e := newCarvingRig(t)
	all := small(t, e.Engine, 3, 100)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for i, d := range all {
		if !e.IsPinned(d) {
			t.Fatal("Close took memory that is lent")
		}
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
		if got := e.host.Calls("Unregister"); (got == 1) != (i == 2) {
			t.Errorf("%d unregistered after %d of 3 were released", got, i+1)
		}
	}
}

func TestMaxCachedAndSegments(t *testing.T) {
	e := newCarvingRig(t, WithMaxCached(1))
	all := small(t, e.Engine, 3, 100)
	e.host.FailNth("Unregister", 1, nil)
	releaseAll(t, e.Engine, all[:2])
	if err := e.Release(all[2]); err == nil {
		t.Error("the last of a segment that must not be cached didn't give it up")
	}
	e.host.Heal()
	if _, err := e.Trim(0); err != nil || e.Stats().Registered.Current != 0 {
		t.Errorf("%v: %v", err, e.Stats())
	}
}

func TestNeighboursInASegmentAreApart(t *testing.T) {
	e := newCarvingRig(t)
	all := small(t, e.Engine, 2, 256)
	a, b := all[0], all[1]
	if base(b) != base(a)+256 {
		t.Fatal("not neighbours")
	}
	_ = append(a.Raw, 1) // must not be able to reach b
	if b.Raw[0] != 0 {
		t.Error("append wrote to the neighbour")
	}
	across := tensor.New(tensor.WithShape(300), tensor.WithBacking(unsafe.Slice(&a.Raw[0], 300)))
	if e.IsPinned(across) || e.Owns(across) {
		t.Error("memory of two blocks counts as one's")
	}
	end := slice(t, a, tensor.S(200, 256))
	if err := e.Release(end); !errors.Is(err, ErrNotOwner) {
		t.Errorf("a view: %v, want ErrNotOwner", err)
	}
	if err := e.Release(a); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(a); !errors.Is(err, ErrReleased) {
		t.Errorf("again: %v, want ErrReleased", err)
	}
	if !e.IsPinned(b) || !e.IsPinned(slice(t, b, tensor.S(100, 256))) {
		t.Error("the neighbour is not pinned")
	}
	if err := e.Release(b); err != nil {
		t.Fatal(err)
	}
}

// While the collector has found a segment and the finalizer has not run, its free blocks are lost from sight.
func TestFreeBlocksOfASegmentThatWasFoundAreNotLent(t *testing.T) {
	e := newCarvingRig(t)
	d := small(t, e.Engine, 1, 300)[0]
	s := blocks.find(base(d)).segment
	alive := s.carved.weak
	s.carved.weak = weak.Pointer[byte]{}
	other := small(t, e.Engine, 1, 300)[0]
	if blocks.find(base(other)).segment == s {
		t.Error("a block was lent that the collector may be about to take")
	}
	s.carved.weak = alive
	releaseAll(t, e.Engine, []*tensor.Dense{d, other})
	runtime.KeepAlive(d)
}

// The cache may lose its last pointer to a segment that has just come back whole.
func TestAWholeSegmentWithoutAPointerIsFoundAgain(t *testing.T) {
	e := newCarvingRig(t)
	func() { releaseAll(t, e.Engine, small(t, e.Engine, 1, 300)) }()
	for i := range e.shelves {
		l := &e.shelves[i].lists[blocksClass(300)]
		l.mu.Lock()
		for k := range l.free {
			l.free[k].mem = nil
		}
		l.mu.Unlock()
	}
	runtime.GC()
	gcUntil(t, "the cache refers to it", func() bool {
		l := &e.shelves[0].lists[blocksClass(300)]
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.free) == 0 || l.free[0].mem != nil
	})
	releaseAll(t, e.Engine, small(t, e.Engine, 1, 300))
	if s := e.Stats(); s.Cold != 1 || s.Reclaimed != 0 {
		t.Errorf("%v, with %d reclaimed; want the segment that there was", s, s.Reclaimed)
	}
}

func blocksClass(n int64) int { class, _ := classOf(n); return class }

// Small tensors are lent, written, viewed, dropped and released by many at once, while the cache is trimmed.
func TestSegmentsFromManyGoroutines(t *testing.T) {
	e := newCarvingRig(t, WithLimit(1<<20), WithMaxCached(256<<10))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				d, err := e.New(tensor.Uint8, 200+i%7*900)
				if errors.Is(err, ErrLimit) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mark := byte(1 + g)
				d.Memset(mark)
				if i%3 == 0 {
					v, _ := d.Slice(tensor.S(100, 200))
					d = nil
					runtime.Gosched()
					for _, x := range v.Data().([]uint8) {
						if x != mark {
							t.Error("a view was disturbed")
							return
						}
					}
					continue
				}
				if i%50 == 1 {
					if _, err := e.Trim(0); err != nil {
						t.Error(err)
					}
					runtime.GC()
				}
				for _, x := range d.Raw {
					if x != mark {
						t.Error("a tensor was disturbed")
						return
					}
				}
				if err := e.Release(d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s := e.Stats(); s.Registered.Peak > 1<<20 {
		t.Errorf("%v: beyond the limit", s)
	}
}
