package pintensor

import (
	"errors"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
)

// A program that uses everything, in which each call of the driver fails in turn, with and without a limit: calls may
// fail, but afterwards the engine works, and nothing is left when it is closed.
func TestEveryDriverCallCanFail(t *testing.T) {
	leak.Check(t)
	for name, opts := range map[string][]Option{
		"plain": nil, "limit": {WithLimit(256 << 10)}, "max cached": {WithMaxCached(40 << 10)},
	} {
		for _, failure := range []error{drivertest.ErrInjected, &driver.Error{Call: "fake", Code: driver.CodeOutOfMemory, Name: "OUT_OF_MEMORY"}} {
			t.Run(name+"/"+failure.Error(), func(t *testing.T) {
				calls := 1
				for n := 1; n <= calls; n++ {
					calls = failAt(t, n, failure, opts)
				}
				if calls < 8 {
					t.Errorf("only %d calls were made to fail", calls)
				}
			})
		}
	}
}

// failAt runs the program with the n-th call failing, and returns how many it makes.
func failAt(t *testing.T, n int, failure error, opts []Option) (calls int) {
	t.Helper()
	host := drivertest.NewFaultyHost(drivertest.CheckedHost(t, &fakeHost{name: "cuda"}))
	e := must[*Engine](t)(NewEngine(append([]Option{WithDriver(host)}, opts...)...))
	host.FailNth("", n, failure)
	allowed := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, failure) && !errors.Is(err, ErrLimit) {
			t.Errorf("call %d fails: %v", n, err)
		}
	}
	var all []*tensor.Dense
	for _, size := range []int{100, 100, 5000, 20_000, 5000, 40_000, 100_000, 300, 100_000} {
		d, err := e.New(tensor.Uint8, size)
		allowed(err)
		if d != nil {
			fillWith(d.Raw, byte(len(all)+1))
			all = append(all, d)
		}
		if len(all)%3 == 0 && len(all) > 0 {
			allowed(e.Release(all[0]))
			all = all[1:]
		}
	}
	allowed(e.Reserve(bg, 300, 20))
	allowed(second(e.Trim(0)))
	f, err := e.AllocBuffer(7000)
	allowed(err)
	if err == nil {
		allowed(f.Release())
	}
	for _, d := range all {
		for _, x := range d.Raw[1:] {
			if x != d.Raw[0] {
				t.Errorf("call %d fails: a tensor was disturbed", n)
				break
			}
		}
		allowed(e.Release(d))
	}
	allowed(second(e.TrimOlder(0)))
	calls = host.Calls("")
	host.Heal()
	d, err := e.New(tensor.Uint8, 3000)
	if err != nil { // an earlier failure is told once
		allowed(err)
		d, err = e.New(tensor.Uint8, 3000)
	}
	if err != nil {
		t.Fatalf("call %d failed, and the engine does not work: %v", n, err)
	}
	if err := e.Release(d); err != nil {
		t.Error(err)
	}
	checkEmpty(t, e)
	return calls
}
