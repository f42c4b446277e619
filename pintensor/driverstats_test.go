package pintensor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
)

// drowsyHost takes its time.
type drowsyHost struct {
	driver.Host
	takes time.Duration
}

func (h *drowsyHost) Register(p unsafe.Pointer, n int64) error {
	time.Sleep(h.takes)
	return h.Host.Register(p, n)
}

func (h *drowsyHost) Unregister(p unsafe.Pointer) error {
	time.Sleep(h.takes)
	return h.Host.Unregister(p)
}

func TestTimeInTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := drivertest.NewFaultyHost(&fakeHost{name: "cuda"})
		slow := &drowsyHost{Host: faulty}
		e := newRigOver(t, slow)
		for i, takes := range []time.Duration{3, 7, 5} {
			slow.takes = takes * time.Millisecond
			if i == 2 {
				faulty.FailNth("Register", 1, nil)
			}
			d, err := e.New(tensor.Uint8, 1<<20<<i)
			if err != nil && i < 2 {
				t.Fatal(err)
			}
			if err == nil {
				if err := e.Release(d); err != nil {
					t.Fatal(err)
				}
			}
		}
		slow.takes = time.Millisecond
		if _, err := e.Trim(0); err != nil {
			t.Fatal(err)
		}
		s := e.Stats()
		if want := (Calls{Count: 3, Failed: 1, Time: 15 * time.Millisecond, Max: 7 * time.Millisecond}); s.RegisterCalls != want {
			t.Errorf("page-locking: %+v, want %+v", s.RegisterCalls, want)
		}
		if want := (Calls{Count: 2, Time: 2 * time.Millisecond, Max: time.Millisecond}); s.UnregisterCalls != want {
			t.Errorf("undoing it: %+v, want %+v", s.UnregisterCalls, want)
		}
		if text := s.String(); !strings.Contains(text, "page-locking took 15ms (at most 7ms)") {
			t.Errorf("as text: %s", text)
		}
	})
}

func TestLockedSaysWhyNot(t *testing.T) {
	_, first := classOf(1 << 20)
	e := newRigOver(t, &fakeHost{name: "mlock", capacity: first})
	if ok, why := e.Locked(); !ok || why != nil {
		t.Errorf("without memory: %v, %v", ok, why)
	}
	locked := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1<<20))
	if ok, why := e.Locked(); !ok || why != nil {
		t.Errorf("within the limit: %v, %v", ok, why)
	}
	ordinary := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1<<20))
	ok, why := e.Locked()
	if want := " bytes of the engine's memory are not page-locked: fakeRegister: no more (2)"; ok || why == nil || !strings.HasSuffix(why.Error(), want) {
		t.Errorf("beyond the limit: %v, %v; want %s", ok, why, want)
	}
	if s := e.Stats(); s.Pageable.Current < 1 || s.Pageable.Current != s.Lent.Current-s.Registered.Current || !strings.HasSuffix(s.String(), " not page-locked") {
		t.Errorf("%v", s)
	}
	for _, d := range []*tensor.Dense{locked, ordinary} {
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Trim(0); err != nil {
		t.Fatal(err)
	}
	if ok, why := e.Locked(); !ok || why != nil {
		t.Errorf("when all is given up: %v, %v", ok, why)
	}
	if s := e.Stats(); s.Pageable.Current != 0 || s.Pageable.Peak == 0 {
		t.Errorf("when all is given up: %+v", s.Pageable)
	}
}
