package pintensor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
)

// slowHost page-locks when it is allowed to.
type slowHost struct {
	fakeHost
	entered chan struct{} // one for each call
	allowed chan struct{} // one for each call that may go on; closed: all
	most    atomic.Int64  // calls at the same time, at most
	inside  atomic.Int64
}

func newSlowHost() *slowHost {
	return &slowHost{fakeHost: fakeHost{name: "cuda"}, entered: make(chan struct{}, 100), allowed: make(chan struct{})}
}

func (h *slowHost) Register(p unsafe.Pointer, n int64) error {
	now := h.inside.Add(1)
	for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); most = h.most.Load() {
	}
	defer h.inside.Add(-1)
	h.entered <- struct{}{}
	<-h.allowed
	return h.fakeHost.Register(p, n)
}

var bg = context.Background()

func TestReserve(t *testing.T) {
	for _, size := range []int64{0, 100, 300 << 10, 5 << 20} { // cached by core, and not
		t.Run(fmt.Sprintf("size=%d", size), func(t *testing.T) {
			e := newRig(t)
			_, each := classOf(max(size, minBlock))
			if err := e.Reserve(bg, size, 7); err != nil {
				t.Fatal(err)
			}
			s := e.Stats()
			if s.Cold != 7 || s.Cached.Current != 7*each || s.Registered.Current != 7*each || s.Lent.Total != 0 {
				t.Errorf("%+v", s)
			}
			var all []*tensor.Dense
			for range 7 {
				d := must[*tensor.Dense](t)(e.New(tensor.Uint8, int(size)))
				for i, x := range d.Raw {
					if x != 0 {
						t.Fatalf("byte %d is %d, want zeros", i, x)
					}
				}
				all = append(all, d)
			}
			if s := e.Stats(); s.Cold != 7 || s.Warm != 7 || s.Cached.Current != 0 {
				t.Errorf("after New: %v", s)
			}
			for _, d := range all {
				if err := e.Release(d); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestReserveRefuses(t *testing.T) {
	e := newRig(t)
	for name, err := range map[string]error{
		"ctx is nil":                          e.Reserve(nil, 1, 1), //lint:ignore SA1012 the mistake is the test
		"size is -1":                          e.Reserve(bg, -1, 1),
		"size is 9223372036854775807":         e.Reserve(bg, math.MaxInt64, 1),
		"n is -1 blocks":                      e.Reserve(bg, 1, -1),
		"n is 9223372036854775807 blocks of ": e.Reserve(bg, 1<<20, math.MaxInt),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "pintensor: Reserve: "+name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	if err := e.Reserve(bg, 1, 0); err != nil {
		t.Errorf("nothing: %v", err)
	}
	canceled, cancel := context.WithCancel(bg)
	cancel()
	if err := e.Reserve(canceled, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if s := e.Stats(); s.Cold != 0 {
		t.Errorf("%d blocks were made", s.Cold)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Reserve(bg, 1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := <-e.ReserveAsync(bg, 1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("closed, in the background: %v", err)
	}
}

func TestReserveWithinTheLimit(t *testing.T) {
	e := newRig(t, WithLimit(10*minBlock))
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	err := e.Reserve(bg, minBlock, 10)
	var le *LimitError
	if !errors.As(err, &le) || le.Asked != 10*minBlock || le.Lent != minBlock || e.Stats().Cold != 1 {
		t.Errorf("%v, with %d blocks made; want ErrLimit before any is", err, e.Stats().Cold-1)
	}
	if err := e.Reserve(bg, minBlock, 9); err != nil {
		t.Errorf("up to the limit: %v", err)
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	// What is reserved is in nobody's way.
	big := must[*tensor.Dense](t)(e.New(tensor.Uint8, 10*minBlock))
	if err := e.Release(big); err != nil {
		t.Fatal(err)
	}
}

func TestReserveWhenTheDriverRefuses(t *testing.T) {
	e := newRigOver(t, &fakeHost{name: "cuda", capacity: 5 * minBlock})
	if err := e.Reserve(bg, 1, 8); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("%v, want the driver's error", err)
	}
	if s := e.Stats(); s.Cold != 5 || s.Cached.Current != 5*minBlock {
		t.Errorf("%v, want the 5 blocks for which there is room", s)
	}
}

// Every call of the driver fails once.
func TestReserveWithAFailureAnywhere(t *testing.T) {
	for nth := 1; nth <= 6; nth++ {
		e := newRig(t)
		e.host.FailNth("Register", nth, nil)
		if err := e.Reserve(bg, 1, 6); !errors.Is(err, drivertest.ErrInjected) {
			t.Errorf("call %d failed: %v", nth, err)
		}
		e.host.Heal()
		if s := e.Stats(); s.Cached.Current != s.Cold*minBlock || s.Registered.Current != s.Cached.Current || e.owned.Load() != s.Cached.Current {
			t.Errorf("call %d failed: %+v", nth, s)
		}
		if err := e.Reserve(bg, 1, 6); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

func TestReserveIsBounded(t *testing.T) {
	h := newSlowHost()
	close(h.allowed)
	e := newRigOver(t, h)
	if err := e.Reserve(bg, 1, 50); err != nil {
		t.Fatal(err)
	}
	if h.most.Load() > reservers {
		t.Errorf("%d calls of the driver at once, want at most %d", h.most.Load(), reservers)
	}
}

func TestReserveAsyncReturnsAtOnceAndNeedNotBeRead(t *testing.T) {
	h := newSlowHost()
	e := newRigOver(t, h)
	result := e.ReserveAsync(bg, 1, 3)
	<-h.entered
	select {
	case err := <-result:
		t.Fatalf("done before the driver was: %v", err)
	default:
	}
	e.ReserveAsync(bg, 1, 2) // its result is never read
	close(h.allowed)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "all blocks are made", func() bool { return e.Stats().Cached.Current == 5*minBlock })
}

func TestCloseWaitsForReserveAsync(t *testing.T) {
	h := newSlowHost()
	e := newRigOver(t, h)
	result := e.ReserveAsync(bg, 1, 50)
	<-h.entered
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	waitUntil(t, "Close has begun", func() bool { return e.closed.Load() })
	select {
	case err := <-closed:
		t.Fatalf("Close returned while blocks are made: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(h.allowed)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if n := h.most.Load(); e.n.cold.Load() > n {
		t.Errorf("%d blocks were made, of which at most %d had been begun", e.n.cold.Load(), n)
	}
	if e.owned.Load() != 0 {
		t.Errorf("%d bytes are left", e.owned.Load())
	}
}

func TestReserveAsyncIsCanceled(t *testing.T) {
	h := newSlowHost()
	e := newRigOver(t, h)
	ctx, cancel := context.WithCancel(bg)
	result := e.ReserveAsync(ctx, 1, 50)
	<-h.entered
	cancel()
	close(h.allowed)
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if s := e.Stats(); s.Cold > reservers || s.Cached.Current != s.Cold*minBlock {
		t.Errorf("%v", s)
	}
}

func TestReserveAsyncAndCloseAtOnce(t *testing.T) {
	for range 50 {
		e := newRig(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := <-e.ReserveAsync(bg, 1, 3); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if e.owned.Load() != 0 {
			t.Fatalf("%d bytes are left", e.owned.Load())
		}
	}
}

func TestReserveAsyncDuringCloseReturnsAtOnce(t *testing.T) {
	h := newSlowHost()
	e := newRigOver(t, h)
	first := e.ReserveAsync(bg, 1, 1)
	<-h.entered
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	waitUntil(t, "Close has begun", func() bool { return e.closed.Load() })
	time.Sleep(time.Millisecond)
	begun := make(chan error, 1)
	go func() { begun <- <-e.ReserveAsync(bg, 1, 1) }()
	select {
	case <-begun:
	case <-time.After(5 * time.Second):
		t.Error("it waits for what Close waits for")
	}
	close(h.allowed)
	<-first
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func BenchmarkReserve(b *testing.B) {
	for _, size := range benchSizes {
		b.Run("size="+sizeName(size), func(b *testing.B) {
			e := benchEngine(b)
			b.SetBytes(8 * int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Reserve(bg, int64(size), 8); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Trim(0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
