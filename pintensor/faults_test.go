package pintensor

// This file makes every call of the driver fail, one at a time, in a program that does a bit of everything.

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/drivertest"
)

// aProgram uses the engine and gives everything back. Errors of the driver it goes on after; others are returned.
func aProgram(t *testing.T, e rig) error {
	t.Helper()
	var unexpected []error
	ok := func(err error) bool {
		if err != nil && !errors.Is(err, drivertest.ErrInjected) {
			unexpected = append(unexpected, err)
		}
		return err == nil
	}
	var lent []*tensor.Dense
	for _, n := range []int{10, 10, 5000, 100_000, 3 << 20, 300_000} {
		if d, err := e.New(tensor.Uint8, n); ok(err) {
			lent = append(lent, d)
		}
	}
	own := bytesOn(t, 3*int(pageSize))
	var unregister []func() error
	for _, part := range []*tensor.Dense{slice(t, own, tensor.S(100, 5000)), slice(t, own, tensor.S(5000, 9000))} {
		if u, err := e.Register(part); ok(err) {
			unregister = append(unregister, u)
		}
	}
	if d, err := e.Pin(own); ok(err) {
		w := newWork()
		useBy(t, d, w)
		ok(e.Release(d))
		w.complete()
	}
	ok(e.Reserve(bg, 64<<10, 3))
	if mem, err := e.Alloc(50_000); ok(err) {
		ok(e.Free(mem, 50_000))
	}
	for _, d := range lent {
		ok(e.Release(d))
	}
	if d, err := e.New(tensor.Uint8, 7<<19); ok(err) { // others are given up for it
		ok(e.Release(d))
	}
	for _, u := range unregister {
		if !ok(u()) {
			ok(u()) // it stays registered, and may be called again
		}
	}
	_, err := e.TrimOlder(time.Hour)
	ok(err)
	_, err = e.Trim(100 << 10)
	ok(err)
	_, err = e.Trim(0)
	ok(err)
	if d, err := e.New(tensor.Uint8, 1<<20); ok(err) {
		ok(e.Release(d))
	}
	return errors.Join(unexpected...)
}

func TestEveryDriverCallFailsOnce(t *testing.T) {
	const limit = 4 << 20
	opts := []Option{WithLimit(limit), WithLeakTracking(), WithPoison()}
	counting := newCarvingRig(t, opts...)
	if err := aProgram(t, counting); err != nil {
		t.Fatal(err)
	}
	calls := counting.host.Calls("")
	if calls < 15 {
		t.Fatalf("the program makes %d calls of the driver, want more", calls)
	}
	for k := 1; k <= calls; k++ {
		t.Run(fmt.Sprintf("call %d of %d", k, calls), func(t *testing.T) {
			e := newCarvingRig(t, opts...) // and looks that nothing is left, of memory or of registrations
			e.host.FailNth("", k, nil)
			if err := aProgram(t, e); err != nil {
				t.Error(err)
			}
			e.host.Heal()
			e.takeErr()
			if err := aProgram(t, e); err != nil { // usable afterwards
				t.Error(err)
			}
			if l := e.Leaks(); len(l) != 0 || e.OpenHolds() != 0 {
				t.Errorf("leaks: %v, open holds: %d", l, e.OpenHolds())
			}
			if s := e.Stats(); s.InPlace.Current != 0 || s.Lent.Current != 0 || s.Registered.Peak > limit+s.InPlace.Peak {
				t.Errorf("%+v", s)
			}
		})
	}
}
