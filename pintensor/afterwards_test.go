package pintensor

// This file tests that the collector does not wait for a driver.

import (
	"runtime"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

// hung is a host whose Unregister does not return before it is let. It tells when it is called.
type hung struct {
	*fakeHost
	called, let chan struct{}
}

func newHung() hung {
	h := hung{&fakeHost{name: "cuda"}, make(chan struct{}, 1000), make(chan struct{})}
	h.unregistering = func() {
		h.called <- struct{}{}
		<-h.let
	}
	return h
}

// While the driver hangs, the finalizers of other packages are called, one goroutine waits, not one for each tensor that was
// dropped, and Stats tell; when it goes on, all is given up and the goroutine ends.
func TestAHungDriverHoldsUpNoFinalizer(t *testing.T) {
	const n = 20
	drop := map[string]struct {
		opts []Option
		drop func(t *testing.T, e *Engine)
	}{
		"blocks": {[]Option{WithMaxCached(1)}, func(t *testing.T, e *Engine) { must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock)) }},
		"registered": {nil, func(t *testing.T, e *Engine) {
			must[func() error](t)(e.Register(tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(minBlock))))
		}},
	}
	for name, c := range drop {
		t.Run(name, func(t *testing.T) {
			host := newHung()
			e := newRigOver(t, host, c.opts...)
			for range n {
				c.drop(t, e.Engine)
			}
			gcUntil(t, "all are found", func() bool { return e.Stats().Leaving == n })
			<-host.called
			finalized := make(chan struct{})
			runtime.SetFinalizer(new(*int), func(**int) { close(finalized) })
			gcUntil(t, "another finalizer is called", func() bool {
				select {
				case <-finalized:
					return true
				default:
					return false
				}
			})
			if got := waitingForDriver(); got != 1 {
				t.Errorf("%d goroutines wait for the driver, want 1", got)
			}
			if s := e.Stats(); s.Registered.Current == 0 || s.Leaving != n {
				t.Errorf("%d leaving and %d bytes registered while the driver hangs, want %d and some", s.Leaving, s.Registered.Current, n)
			}
			close(host.let)
			waitUntil(t, "all is given up", func() bool { s := e.Stats(); return s.Leaving == 0 && s.Registered.Current == 0 })
			if s := e.Stats(); s.Forgotten != n || s.Reclaimed != n {
				t.Errorf("%d forgotten, %d reclaimed, want %d", s.Forgotten, s.Reclaimed, n)
			}
			waitUntil(t, "the goroutine ends", func() bool { return waitingForDriver() == 0 })
		})
	}
}

// waitingForDriver returns how many goroutines work off a queue.
func waitingForDriver() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by github.com/pintensor/pin/pintensor.(*Engine).afterwards")
}

// A call that lacks memory waits for what is being given up, also if it is in the queue still.
func TestGrowthWaitsForWhatIsLeaving(t *testing.T) {
	host := newHung()
	e := newRigOver(t, host, WithLimit(4*minBlock), WithMaxCached(1))
	for range 4 {
		must[*tensor.Dense](t)(e.New(tensor.Uint8, minBlock))
	}
	gcUntil(t, "all are found", func() bool { return e.Stats().Leaving == 4 })
	if got := e.freeing.Load(); got < 4 {
		t.Errorf("%d are being given up, want the 4 in the queue", got)
	}
	go func() {
		<-host.called
		close(host.let)
	}()
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 4*minBlock))
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}
