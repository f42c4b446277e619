package pintensor

// This file tests what is said of released memory that was written to.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/drivertest"
)

// at reports whether the innermost caller is the given line of this file.
func at(callers []Caller, line int) bool {
	return len(callers) > 0 && callers[0].Line == line && strings.HasSuffix(callers[0].File, "written_test.go")
}

func TestLateWritersAreNamed(t *testing.T) {
	for _, tracking := range []bool{false, true} {
		for name, newRig := range map[string]func(testing.TB, ...Option) rig{"a block": newRig, "a part of a segment": newCarvingRig} {
			t.Run(fmt.Sprintf("%s/tracking=%v", name, tracking), func(t *testing.T) {
				opts := []Option{WithPoison()}
				if tracking {
					opts = append(opts, WithLeakTracking())
				}
				e := newRig(t, opts...)
				d, lent := must[*tensor.Dense](t)(e.New(tensor.Float32, 25)), here()
				late := d.Data().([]float32)
				err, released := e.Release(d), here()
				if err != nil {
					t.Fatal(err)
				}
				late[7] = 7
				_, err = e.New(tensor.Float32, 25)
				found := here() - 1
				var w *WrittenError
				if !errors.Is(err, ErrWritten) || !errors.As(err, &w) || w.Offset < 28 || w.Offset > 31 || w.Size != 100 || !at(w.Found, found) {
					t.Fatalf("%v: %+v", err, w)
				}
				if !tracking {
					if w.Lent != nil || w.Released != nil || !strings.Contains(err.Error(), "; WithLeakTracking tells where it was lent and released; noticed at ") {
						t.Errorf("%v: %+v", err, w)
					}
					return
				}
				if !at(w.Lent, lent) || !at(w.Released, released) {
					t.Errorf("lent at %v and released at %v, want lines %d and %d", w.Lent, w.Released, lent, released)
				}
				for _, want := range []string{
					fmt.Sprintf("; lent at %v", w.Lent[0]), fmt.Sprintf("; released at %v", w.Released[0]), fmt.Sprintf("; noticed at %v", w.Found[0]),
				} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v: no %s", err, want)
					}
				}
			})
		}
	}
}

func TestLateWritersToMemoryOfAlloc(t *testing.T) {
	e := newRig(t, WithPoison(), WithLeakTracking())
	mem := must[tensor.Memory](t)(e.Alloc(100))
	late := bytesOf(mem)
	err, released := e.Free(mem, 100), here()
	if err != nil {
		t.Fatal(err)
	}
	late[99] = 1
	_, err = e.Alloc(100)
	var w *WrittenError
	if !errors.As(err, &w) || w.Offset != 99 || !at(w.Released, released) {
		t.Errorf("%v: %+v, want it released at line %d", err, w, released)
	}
}

// Memory that is not lent again is looked at when it is given up.
func TestLateWritersAreFoundWhenMemoryIsGivenUp(t *testing.T) {
	for name, giveUp := range map[string]func(rig) error{
		"Trim":  func(e rig) error { _, err := e.Trim(0); return err },
		"Close": func(e rig) error { return e.Close() },
		"to make room": func(e rig) error {
			d, err := e.New(tensor.Uint8, 240<<10)
			if err == nil {
				err = e.Release(d)
			}
			_, next := e.New(tensor.Uint8, 1)
			return errors.Join(err, next)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newCarvingRig(t, WithPoison(), WithLeakTracking(), WithLimit(256<<10))
			var all []*tensor.Dense
			for range 5 {
				all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, 1000)))
			}
			late := all[3].Data().([]byte)
			releaseAll(t, e.Engine, all)
			late[5] = 1
			err := giveUp(e)
			var w *WrittenError
			if !errors.As(err, &w) || w.Offset != 5 || w.Size != 1000 || w.Lent == nil {
				t.Errorf("%v: %+v", err, w)
			}
			if n := len(e.tracker.returned); name != "to make room" && n != 0 {
				t.Errorf("%d blocks that were given up are remembered", n)
			}
		})
	}
}

// The driver may have to be asked again for memory that somebody wrote to; that is told once.
func TestLateWritersAreToldOfOnce(t *testing.T) {
	e := newRig(t, WithPoison())
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1000))
	late := d.Data().([]byte)
	releaseAll(t, e.Engine, []*tensor.Dense{d})
	late[5] = 1
	e.host.FailNth("Unregister", 1, nil)
	if _, err := e.Trim(0); !errors.Is(err, ErrWritten) || !errors.Is(err, drivertest.ErrInjected) {
		t.Errorf("%v, want ErrWritten and the driver's error", err)
	}
	if freed, err := e.Trim(0); err != nil || freed == 0 {
		t.Errorf("again: %d bytes, %v", freed, err)
	}
}

func TestHoldsThatAreNotEnded(t *testing.T) {
	e := newCarvingRig(t, WithLeakTracking())
	d := must[*tensor.Dense](t)(e.New(tensor.Float32, 10, 4))
	view := slice(t, d, tensor.S(2, 4))
	h, line := must[Hold](t)(Acquire(view)), here()
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
	l := e.Leaks()
	if len(l) != 1 || !l[0].Held || l[0].Bytes != 32 || !l[0].Shape.Eq(tensor.Shape{2, 4}) || !at(l[0].Callers, line) || !strings.Contains(l[0].String(), ", held ") {
		t.Errorf("%v, want a hold of line %d", l, line)
	}
	if n := e.OpenHolds(); n != 1 {
		t.Errorf("%d holds are open, want 1", n)
	}
	h.Done()
	if n := e.OpenHolds(); n != 0 || len(e.Leaks()) != 0 || e.Stats().LostHolds != 0 {
		t.Errorf("%d holds are open when it has ended; leaks %v", n, e.Leaks())
	}
	func() {
		d := must[*tensor.Dense](t)(e.New(tensor.Float32, 10))
		must[Hold](t)(Acquire(d))
		must[Hold](t)(Acquire(d))
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}()
	gcUntil(t, "the holds are found", func() bool { return e.Stats().LostHolds == 2 })
	if n := e.OpenHolds(); n != 0 || len(e.Leaks()) != 0 {
		t.Errorf("%d holds are open that nobody has; leaks %v", n, e.Leaks())
	}
}

func TestOpenHoldsAreAnEnginesOwn(t *testing.T) {
	e, other := newRig(t), newRig(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(100))
	unregister := must[func() error](t)(e.Register(d))
	h := must[Hold](t)(Acquire(d))
	if a, b := e.OpenHolds(), other.OpenHolds(); a != 1 || b != 0 {
		t.Errorf("%d and %d holds are open, want 1 and 0", a, b)
	}
	h.Done()
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
}
