package pintensor

import (
	"errors"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
)

func TestLimitSaysTheFigures(t *testing.T) {
	e := newRig(t, WithLimit(2*minBlock))
	a := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))
	b := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))
	_, err := e.New(tensor.Uint8, 1)
	var le *LimitError
	if !errors.Is(err, ErrLimit) || !errors.As(err, &le) {
		t.Fatalf("%v, want ErrLimit", err)
	}
	if want := (LimitError{Limit: 2 * minBlock, Asked: minBlock, Lent: 2 * minBlock}); *le != want {
		t.Errorf("%+v, want %+v", *le, want)
	}
	if err := errors.Join(e.Release(a), e.Release(b)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.New(tensor.Uint8, 3*minBlock); !errors.Is(err, ErrLimit) {
		t.Fatalf("more than the limit: %v, want ErrLimit", err)
	}
	if s := e.Stats(); s.Cached.Current != 2*minBlock {
		t.Errorf("the cache was given up for a block that it could not make room for: %+v", s)
	}
}

func TestLimitGivesUpOtherSizesFirst(t *testing.T) {
	e := newRig(t, WithLimit(4*minBlock))
	a := must[*tensor.Dense](t)(e.New(tensor.Uint8, 2*minBlock))
	if err := e.Release(a); err != nil {
		t.Fatal(err)
	}
	b := must[*tensor.Dense](t)(e.New(tensor.Uint8, 4*minBlock))
	if err := e.Release(b); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.Trims != 1 || s.Registered.Peak > 4*minBlock {
		t.Errorf("%+v, want one block given up, and no peak over the limit", s)
	}
}

func TestLimitReclaimsWhatWasDropped(t *testing.T) {
	e := newRig(t, WithLimit(4*minBlock))
	for range 20 {
		must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock)) // and drops it
	}
}

func TestLimitWaitsForTheOldestCopy(t *testing.T) {
	e := newRig(t, WithLimit(2*minBlock))
	var oldest *work
	for i := range 2 {
		d, w := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock)), newWork()
		useBy(t, d, w)
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			oldest = w
		} else {
			defer w.complete()
		}
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		oldest.complete()
	}()
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.Waits != 1 {
		t.Errorf("%d waits, want 1", s.Waits)
	}
}

// Waiting for a copy of a tensor that is lent would give no memory.
func TestLimitWaitsForReleasedBlocksFirst(t *testing.T) {
	e := newRig(t, WithLimit(2*minBlock))
	lent, older := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock)), newWork()
	useBy(t, lent, older)
	d, newer := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock)), newWork()
	useBy(t, d, newer)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	e.maxWait = time.Second
	go func() {
		time.Sleep(10 * time.Millisecond)
		newer.complete()
	}()
	d = must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	older.complete()
	if err := errors.Join(e.Release(d), e.Release(lent)); err != nil {
		t.Fatal(err)
	}
}

func TestLimitDoesNotWaitForEver(t *testing.T) {
	e := newRig(t, WithLimit(minBlock))
	e.maxWait = 30 * time.Millisecond
	d, w := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock)), newWork()
	useBy(t, d, w)
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	_, err := e.New(tensor.Uint8, minBlock)
	var le *LimitError
	if !errors.As(err, &le) || le.InFlight != minBlock {
		t.Fatalf("%v, want ErrLimit with %d in flight", err, minBlock)
	}
	w.complete()
	d = must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

// A tensor that was dropped while it was copied is garbage only when the copy is done.
func TestLimitCollectsAgainAfterWaiting(t *testing.T) {
	e := newRig(t, WithLimit(minBlock))
	w := newWork()
	func() { useBy(t, must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock)), w) }()
	go func() {
		time.Sleep(20 * time.Millisecond)
		w.complete()
	}()
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestADriverWithoutMemoryIsHandledLikeALimit(t *testing.T) {
	e := newRigOver(t, &fakeHost{name: "cuda", capacity: 4 * minBlock})
	a := must[*tensor.Dense](t)(e.New(tensor.Uint8, 2*minBlock))
	b := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	if err := errors.Join(e.Release(a), e.Release(b)); err != nil {
		t.Fatal(err)
	}
	c := must[*tensor.Dense](t)(e.New(tensor.Uint8, 4*minBlock)) // gives both up
	if _, err := e.New(tensor.Uint8, minBlock); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Fatalf("%v, want the driver's out of memory", err)
	}
	if err := e.Release(c); err != nil {
		t.Fatal(err)
	}
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	unregister, err := e.Register(tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(4*minBlock-int(pageSize))))
	if err != nil {
		t.Fatalf("Register does not make room in the cache: %v", err)
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
}

// Memory that another call is giving up counts until the driver is done with it. A call that needs it waits.
func TestLimitWhileOthersGiveUp(t *testing.T) {
	for name, giveUp := range map[string]func(*Engine) (int64, error){
		"Trim":      func(e *Engine) (int64, error) { return e.Trim(0) },
		"TrimOlder": func(e *Engine) (int64, error) { return e.TrimOlder(0) },
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{name: "cuda"}
			e := newRigOver(t, h, WithLimit(1<<20))
			give(t, e.Engine, 1<<20)
			entered, goOn := make(chan struct{}), make(chan struct{})
			h.unregistering = func() { entered <- struct{}{}; <-goOn }
			trimmed := make(chan error, 1)
			go func() { _, err := giveUp(e.Engine); trimmed <- err }()
			<-entered
			h.unregistering = nil
			time.AfterFunc(50*time.Millisecond, func() { close(goOn) })
			d, err := e.New(tensor.Uint8, 900_000)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-trimmed; err != nil {
				t.Error(err)
			}
			if err := e.Release(d); err != nil {
				t.Error(err)
			}
		})
	}
}

// So it does for what Reserve is making: it is in nobody's way.
func TestLimitWhileReserveMakesBlocks(t *testing.T) {
	h := newSlowHost()
	e := newRigOver(t, h, WithLimit(1<<20))
	result := e.ReserveAsync(bg, 1<<20, 1)
	<-h.entered
	time.AfterFunc(50*time.Millisecond, func() { close(h.allowed) })
	d, err := e.New(tensor.Uint8, 900_000)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	if err := e.Release(d); err != nil {
		t.Error(err)
	}
}
