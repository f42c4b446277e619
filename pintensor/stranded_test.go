package pintensor

import (
	"errors"
	"testing"

	"gorgonia.org/tensor"
)

// strand leaves n blocks of 1 MiB behind that the driver did not unregister.
func strand(t *testing.T, e rig, n int) {
	t.Helper()
	var all []*tensor.Dense
	for range n {
		all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, 1<<20)))
	}
	releaseAll(t, e.Engine, all)
	broken := errors.New("broken")
	for i := range n {
		e.host.FailNth("Unregister", i+1, broken)
	}
	if freed, err := e.Trim(0); freed != 0 || !errors.Is(err, broken) {
		t.Fatalf("%d bytes freed, %v; want none and the driver's error", freed, err)
	}
}

func TestNewMemoryAsksTheDriverAgain(t *testing.T) {
	e := newRig(t)
	strand(t, e, 3)
	for left := int64(2); left >= 0; left-- {
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 2<<20<<left))
		if s := e.Stats(); s.Registered.Current != s.Lent.Current+s.Cached.Current+left<<20 {
			t.Errorf("%+v registered, %+v lent, %+v cached; want %d MiB beside them", s.Registered, s.Lent, s.Cached, left)
		}
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
}

// A driver that refuses for good harms no call, and is not asked more than once by each.
func TestNewMemoryBesideADriverThatKeepsSome(t *testing.T) {
	e := newRig(t)
	strand(t, e, 2)
	e.host.FailAll("Unregister")
	before := e.host.Calls("Unregister")
	for i := range 3 {
		d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 2<<20<<i))
		if got := e.host.Calls("Unregister") - before; got != i+1 {
			t.Errorf("%d calls to Unregister by %d of New", got, i+1)
		}
		if err := e.Release(d); err != nil {
			t.Fatal(err)
		}
	}
	e.host.Heal()
}

func TestTheLimitAsksTheDriverAgain(t *testing.T) {
	e := newRig(t, WithLimit(3<<20))
	strand(t, e, 3)
	e.host.FailNth("Unregister", 1, nil) // once more
	var all []*tensor.Dense
	for range 3 {
		all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, 1<<20)))
	}
	releaseAll(t, e.Engine, all)
}
