package pintensor

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"gorgonia.org/tensor"
)

func TestTrimKeepsWhatItIsTold(t *testing.T) {
	e := newRig(t)
	var all []*tensor.Dense
	for range 4 {
		all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, 1)))
	}
	all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, 10*minBlock)))
	for _, d := range all {
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
	if freed := must[int64](t)(e.Trim(1 << 40)); freed != 0 {
		t.Errorf("freed %d to keep more than there is", freed)
	}
	if freed := must[int64](t)(e.Trim(3 * minBlock)); freed != 11*minBlock {
		t.Errorf("freed %d, want %d", freed, 11*minBlock)
	}
	if s := e.Stats(); s.Cached.Current != 3*minBlock || s.Registered.Current != 3*minBlock || s.Trims != 2 {
		t.Errorf("after Trim: %+v", s)
	}
	if freed := must[int64](t)(e.Trim(0)); freed != 3*minBlock {
		t.Errorf("freed %d, want %d", freed, 3*minBlock)
	}
}

func TestTrimLeavesCopiesAlone(t *testing.T) {
	e := newRig(t)
	d, w := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1)), newWork()
	useBy(t, d, w)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if freed := must[int64](t)(e.Trim(0)); freed != 0 || e.host.Calls("Unregister") != 0 {
		t.Errorf("freed %d bytes that are being copied", freed)
	}
	w.complete()
	if freed := must[int64](t)(e.Trim(0)); freed != minBlock {
		t.Errorf("freed %d, want %d", freed, minBlock)
	}
}

func TestClose(t *testing.T) {
	e := newRig(t)
	kept := must[*tensor.Dense](t)(e.New(tensor.Float32, 5))
	made := must[tensor.Memory](t)(e.Alloc(5))
	func() { must[*tensor.Dense](t)(e.New(tensor.Float32, 5)) }() // dropped: reclaimed after Close
	cached := must[*tensor.Dense](t)(e.New(tensor.Float32, 5))
	if err := e.Release(cached); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, err := range map[string]error{
		"New": second(e.New(tensor.Float32)), "Pin": second(e.Pin(kept)), "Trim": second(e.Trim(0)), "Alloc": second(e.Alloc(1)),
		"Register": second(e.Register(tensor.New(tensor.FromScalar(1)))),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	if !e.IsPinned(kept) || !e.Owns(kept) {
		t.Error("Close took memory that is lent")
	}
	kept.Data().([]float32)[0] = 1
	if err := e.Release(kept); err != nil {
		t.Fatal(err)
	}
	if e.IsPinned(kept) {
		t.Error("released after Close, and still pinned")
	}
	if err := e.Free(made, 5); err != nil {
		t.Fatal(err)
	}
	gcUntil(t, "the dropped block is given up", func() bool { return e.owned.Load() == 0 })
}

func TestCloseWaitsForCopies(t *testing.T) {
	e := newRig(t)
	d, w := must[*tensor.Dense](t)(e.New(tensor.Float32, 5)), newWork()
	useBy(t, d, w)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		w.complete()
	}()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e.owned.Load() != 0 {
		t.Error("Close returned before the block was given up")
	}
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	e := newRig(t)
	e.maxWait = 20 * time.Millisecond
	d, w := must[*tensor.Dense](t)(e.New(tensor.Float32, 5)), newWork()
	useBy(t, d, w)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); !errors.Is(err, ErrInUse) {
		t.Fatalf("%v, want ErrInUse", err)
	}
	if e.host.Calls("Unregister") != 0 {
		t.Fatal("memory was unregistered under a copy")
	}
	w.complete()
	if err := e.Close(); err != nil {
		t.Fatalf("when the copy is done: %v", err)
	}
}

func TestDriverErrors(t *testing.T) {
	broken := errors.New("broken")
	e := newRig(t)
	e.host.FailNth("Register", 1, broken)
	if _, err := e.New(tensor.Float32, 5); !errors.Is(err, broken) {
		t.Fatalf("New: %v, want the driver's error", err)
	}
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 5))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	e.host.FailNth("Unregister", 1, broken)
	e.host.FailNth("Unregister", 2, broken) // New asks again
	if freed, err := e.Trim(0); freed != 0 || !errors.Is(err, broken) {
		t.Fatalf("Trim: %d, %v, want the driver's error", freed, err)
	}
	other := must[*tensor.Dense](t)(e.New(tensor.Float32, 5))
	if base(other) == base(d) {
		t.Error("a block that the driver is in doubt about was lent")
	}
	if freed := must[int64](t)(e.Trim(0)); freed != minBlock {
		t.Errorf("a second Trim freed %d, want the block that was left", freed)
	}
	if err := e.Release(other); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsInTheBackgroundComeBack(t *testing.T) {
	broken := errors.New("broken")
	e := newRig(t)
	d, w := must[*tensor.Dense](t)(e.New(tensor.Float32, 5)), newWork()
	useBy(t, d, w)
	func() { must[*tensor.Dense](t)(e.New(tensor.Float32, 5)) }()
	e.maxWait = time.Millisecond
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); !errors.Is(err, ErrInUse) {
		t.Fatal(err)
	}
	e.host.FailNth("Unregister", 1, broken)
	e.host.FailNth("Unregister", 2, broken)
	w.complete()
	e.Stats() // completes the copy; nobody to tell
	gcUntil(t, "the finalizer gave the other block up", func() bool { return e.host.Calls("Unregister") >= 2 })
	waitUntil(t, "the error is noted", func() bool { return e.hasErr.Load() })
	if err := e.Close(); !errors.Is(err, broken) {
		t.Fatalf("Close: %v, want what went wrong", err)
	}
	e.host.Heal()
}

func TestReleasedTensorsAreKnownAlsoWhenTheirBlockIsGone(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 5))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	must[int64](t)(e.Trim(0))
	if err := e.Release(d); !errors.Is(err, ErrReleased) {
		t.Errorf("Release: %v, want ErrReleased", err)
	}
	if _, err := e.Pin(d); !errors.Is(err, ErrReleased) {
		t.Errorf("Pin: %v, want ErrReleased", err)
	}
}

// pytorch#152008: closing while others use the engine. Each call either works or says ErrClosed, and nothing is left.
func TestCloseDuringCalls(t *testing.T) {
	for range 20 {
		e := newRig(t)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					err := lifeOf(t, e.Engine, 1+g*i%5*minBlock, i)
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		runtime.Gosched()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

// lifeOf makes a tensor, has work use it, and releases or drops it.
func lifeOf(t *testing.T, e *Engine, n, i int) error {
	d, err := e.New(tensor.Uint8, n)
	if err != nil {
		return err
	}
	w := newWork()
	useBy(t, d, w)
	go w.complete()
	switch i % 4 {
	case 0:
		return nil
	case 1:
		_, err = e.Trim(minBlock)
	case 2:
		e.Stats()
	}
	return errors.Join(err, e.Release(d))
}
