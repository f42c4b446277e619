package pintensor

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

func TestAReleasedBlockIsNotLentWhileACopyReadsIt(t *testing.T) {
	e := newRig(t, WithPoison())
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	data := d.Data().([]float32)
	data[0] = 42
	w := newWork()
	useBy(t, slice(t, d, tensor.S(10, 20)), w) // a view: what counts is the address
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.Lent.Current != 0 || s.InFlight.Current != minBlock || s.Cached.Current != 0 {
		t.Errorf("released in flight: %+v", s)
	}
	other := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	if base(other) == base(d) {
		t.Fatal("the block was lent again under the copy")
	}
	if data[0] != 42 {
		t.Fatal("the block was poisoned under the copy")
	}
	w.complete()
	if s := e.Stats(); s.InFlight.Current != 0 || s.Cached.Current != minBlock {
		t.Errorf("completed: %+v", s)
	}
	again := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	if base(again) != base(d) {
		t.Error("the block did not come back")
	}
	if err := errors.Join(e.Release(other), e.Release(again)); err != nil {
		t.Fatal(err)
	}
}

func TestSlowCopiesHoldNoOthersUp(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	var slow []*work
	for range 3 * pollSome {
		slow = append(slow, newWork())
		useBy(t, d, slow[len(slow)-1])
	}
	b := blocks.holding(d.Raw)
	for range 1000 {
		quick := newWork()
		quick.complete()
		useBy(t, d, quick)
	}
	if n := len(b.device.uses); n > 10*pollSome {
		t.Errorf("%d uses are kept, of which %d are under way", n, len(slow))
	}
	for _, w := range slow {
		w.complete()
	}
	if s := e.Stats(); s.InFlight.Current != 0 {
		t.Errorf("completed: %+v", s)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestADroppedSourceLivesUntilItsCopyIsDone(t *testing.T) {
	e := newRig(t)
	w := newWork()
	var where uintptr
	func() {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
		where = base(d)
		useBy(t, d, w)
	}()
	churn(t, e.Engine)
	if b := blocks.find(where); b == nil || b.state != lent {
		t.Fatal("the memory went back while the copy ran")
	}
	w.complete()
	gcUntil(t, "the dropped source is reclaimed", func() bool { return e.Stats().Lent.Current == 0 })
}

func TestHoldsDelayRecycling(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	a, b := must[Hold](t)(Acquire(d)), must[Hold](t)(Acquire(d))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	a.Done()
	a.Done()           // again: must not end b
	a.Until(newWork()) // nor this
	other := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	if base(other) == base(d) {
		t.Fatal("the block was lent again under a hold")
	}
	w := newWork()
	b.Until(w)
	w.complete()
	again := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	if base(again) != base(d) {
		t.Error("the block did not come back")
	}
	if err := errors.Join(e.Release(other), e.Release(again)); err != nil {
		t.Fatal(err)
	}
}

func TestInUse(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	other := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	view := slice(t, d, tensor.S(10, 20))
	expect := func(when string, want bool) {
		t.Helper()
		if InUse(d) != want || InUse(view) != want {
			t.Errorf("%s: %v, its view %v, want %v", when, InUse(d), InUse(view), want)
		}
	}
	expect("new", false)
	hold := must[Hold](t)(Acquire(view))
	expect("held", true)
	w := newWork()
	hold.Until(w)
	expect("in flight", true)
	second := newWork()
	useBy(t, d, second)
	w.complete()
	expect("one of two copies is done", true)
	second.complete()
	expect("both are done", false)
	if InUse(nil) || InUse(other) || InUse(tensor.New(tensor.WithBacking([]float32{1}))) {
		t.Error("nothing, a tensor that nobody copies or one of no engine is in use")
	}
	last := newWork()
	useBy(t, d, last)
	if err := errors.Join(e.Release(d), e.Release(other)); err != nil {
		t.Fatal(err)
	}
	if InUse(d) {
		t.Error("a tensor that was released is in use")
	}
	last.complete()
}

func TestAForgottenHoldIsNoLeak(t *testing.T) {
	e := newRig(t)
	func() {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
		must[Hold](t)(Acquire(d))
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
		d = must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
		must[Hold](t)(Acquire(d))
	}()
	want := int64(2 * minBlock)
	if raceEnabled {
		want = 0 // reclaimed blocks are given back
	}
	gcUntil(t, "both blocks are back", func() bool { return e.owned.Load() == want && e.Stats().Cached.Current == want })
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if got := e.Stats().Cached.Current; got != max(want, minBlock) {
		t.Errorf("%d bytes cached, want %d: the block remembers the hold", got, max(want, minBlock))
	}
}

func TestZeroHolds(t *testing.T) {
	leak.Check(t)
	h := must[Hold](t)(Acquire(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3))))
	if h.Pinned() || h != (Hold{}) {
		t.Errorf("a hold on ordinary memory is %+v, want zero", h)
	}
	h.Until(newWork())
	h.Done()
	Hold{}.Done()
}

// A view's header is not marked when its owner is released, but its memory is known to be.
func TestAcquireAfterRelease(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 100))
	v, w := slice(t, d, tensor.S(10, 20)), newWork()
	useBy(t, d, w)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"in flight", "cached"} {
		if _, err := Acquire(v); !errors.Is(err, ErrReleased) {
			t.Errorf("%s: %v, want ErrReleased", when, err)
		}
		if _, err := e.Pin(v); !errors.Is(err, ErrReleased) {
			t.Errorf("%s: Pin: %v, want ErrReleased", when, err)
		}
		if when == "in flight" {
			w.complete()
			e.Stats()
		}
	}
}

func TestUntilNothing(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	must[Hold](t)(Acquire(d)).Until(nil)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.Cached.Current != minBlock {
		t.Errorf("the block did not come back: %+v", s)
	}
}

// One copy that is slow to complete must not hold up other blocks.
func TestASlowCopyHoldsNothingElseUp(t *testing.T) {
	e := newRig(t)
	slow := newWork()
	first := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	useBy(t, first, slow)
	if err := e.Release(first); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		d, w := must[*tensor.Dense](t)(e.New(tensor.Float32, 3)), newWork()
		useBy(t, d, w)
		w.complete()
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
	if s := e.Stats(); s.Cold > 2 {
		t.Errorf("%d blocks were made, want 2", s.Cold)
	}
	slow.complete()
}

// A program that never runs out of cached blocks gets back those that were in flight, too.
func TestReleaseCompletesCopiesOfOthers(t *testing.T) {
	e := newRig(t)
	a, b := must[*tensor.Dense](t)(e.New(tensor.Float32, 3)), must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	w := newWork()
	useBy(t, a, w)
	if err := e.Release(a); err != nil {
		t.Fatal(err)
	}
	w.complete()
	if err := e.Release(b); err != nil {
		t.Fatal(err)
	}
	if got := e.n.cached.now(); got != 2*minBlock {
		t.Errorf("%d bytes cached, want both blocks, %d", got, 2*minBlock)
	}
}

// The engine must not pile up the completions of a tensor that is copied from again and again.
func TestManyCopiesOfOneTensor(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	done := newWork()
	done.complete()
	for range 10_000 {
		useBy(t, d, done)
	}
	b := blocks.find(base(d))
	if n := cap(b.device.uses); n > 64 {
		t.Errorf("room for %d completions, all of them completed", n)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedCopyCountsAsCompleted(t *testing.T) {
	e := newRig(t)
	d, w := must[*tensor.Dense](t)(e.New(tensor.Float32, 3)), newWork()
	w.err = errors.New("the device is gone")
	useBy(t, d, w)
	w.complete()
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.Cached.Current != minBlock {
		t.Errorf("the block did not come back: %+v", s)
	}
}

func TestAcquireAllocatesNothing(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	w := newWork()
	w.complete()
	got := testing.AllocsPerRun(1000, func() {
		h, err := Acquire(d)
		if err != nil {
			t.Fatal(err)
		}
		h.Until(w)
		if !e.IsPinned(d) {
			t.Fatal("not pinned")
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want 0", got)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestNewAndReleaseAllocateTheDenseOnly(t *testing.T) {
	e := newRig(t)
	got := testing.AllocsPerRun(1000, func() {
		d, err := e.New(tensor.Float32, 3, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 { // the header, and its shape and strides
		t.Errorf("%v allocations, want 2", got)
	}
}

// A use can end between its being noted and its block being listed.
func TestABlockWithoutUsesLeavesTheList(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 3))
	b := blocks.find(base(d))
	b.mu.Lock()
	b.device = &deviceUse{queued: true}
	b.mu.Unlock()
	e.flight.push(b)
	e.poll(pollAll)
	if n := e.flight.n.Load(); n != 0 || b.device.queued {
		t.Errorf("%d blocks are listed without a use", n)
	}
	useBy(t, d, newWork())
	if n := e.flight.n.Load(); n != 1 {
		t.Errorf("%d blocks are listed, want the one in use", n)
	}
	e.maxWait = 1
	for _, u := range b.device.uses {
		u.done.(*work).complete()
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestEverythingAtOnce(t *testing.T) {
	e := newRig(t, WithLimit(64*minBlock), WithPoison())
	views := make(chan *tensor.Dense, 8)
	var wg, readers sync.WaitGroup
	readers.Go(func() {
		for v := range views {
			want := v.Data().([]int64)[0]
			runtime.Gosched()
			for _, x := range v.Data().([]int64) {
				if x != want {
					t.Errorf("a view that is in use reads %d, want %d", x, want)
				}
			}
		}
	})
	for g := range 6 {
		wg.Go(func() {
			for i := range 150 {
				d, err := e.New(tensor.Int64, 3+g*i*20)
				if errors.Is(err, ErrLimit) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				data := d.Data().([]int64)
				for k := range data {
					if data[k] != 0 {
						t.Errorf("new memory holds %d", data[k])
						return
					}
					data[k] = int64(g*1000 + i)
				}
				switch i % 4 {
				case 0: // dropped while a reader has a view
					v, err := d.Slice(tensor.S(1, 3))
					if err != nil {
						t.Error(err)
					}
					views <- v.(*tensor.Dense)
					continue
				case 1:
					h, err := Acquire(d)
					if err != nil {
						t.Error(err)
					}
					w := newWork()
					h.Until(w)
					wg.Go(func() {
						runtime.Gosched()
						for _, x := range data {
							if x != int64(g*1000+i) {
								t.Errorf("memory under a copy reads %d, want %d", x, g*1000+i)
								break
							}
						}
						w.complete()
					})
				case 2:
					if _, err := e.Trim(8 * minBlock); err != nil {
						t.Error(err)
					}
				}
				if err := e.Release(d); err != nil {
					t.Error(err)
				}
				if err := e.Release(d); !errors.Is(err, ErrReleased) {
					t.Errorf("second Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	close(views)
	readers.Wait()
	if s := e.Stats(); s.Registered.Peak > 64*minBlock || s.Lent.Peak > 64*minBlock {
		t.Errorf("the limit of %d was passed: %+v", 64*minBlock, s)
	}
}
