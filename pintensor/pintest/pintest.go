// Package pintest checks in a program's tests that pinned memory is given back.
//
//	func TestTraining(t *testing.T) {
//		engine, err := pintensor.NewEngine(pintensor.WithLeakTracking(), pintensor.WithPoison())
//		...
//		pintest.Check(t, engine)
//		// The test fails if it leaves tensors of engine unreleased, and names the lines that made them.
//	}
//
// # Ownership
//
// The engine stays the test's: [Check] only looks at it, and does not close it.
//
// # Concurrency
//
// The figures of an engine don't say which test its tensors are of. So an engine that is checked must not
// be used by tests that run in parallel with this one; an engine for each test is simplest.
//
// # Errors
//
// What is left is an error of the test, with the lines that lent it where the engine knows them.
//
// # Platforms
//
// All that Go runs on, with a GPU or without.
package pintest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pintensor/pin/pintensor"
)

// grace is how long Check waits for copies in flight, and for the garbage collector. Tests of it wait less.
var grace = 2 * time.Second

// Check makes t fail if, when t and the cleanups that it registers from now on have ended,
//   - tensors of e are lent, or the program's own registered, those included that were so before;
//   - the garbage collector gave tensors back since now that nobody released or unregistered: the test dropped
//     them, or somebody did before it and the collector found them only now;
//   - copies from or to e's memory are still in flight after 2 seconds, or holds on it open, also if the tensor was
//     released; or such a hold was dropped since now.
//
// If e was made with pintensor.WithLeakTracking the lines that lent the memory are named. Memory of
// results of arithmetic, with tensor.WithEngine(e), has nobody to release it, and what AllowDrop was called for need
// not be released: the garbage collector is run until that is back, for at most 2 seconds, so it must only not be
// referred to any more. Nothing is checked if t has failed by then: a failed test may well leave things behind, and
// its own message matters more.
//
// Check does not close e; closing it before the end of the test changes nothing.
func Check(t testing.TB, e *pintensor.Engine) {
	t.Helper()
	if e == nil {
		t.Errorf("pintest: Check: e is nil, want a *pintensor.Engine")
		return
	}
	before := e.Stats()
	forgottenBefore, lostBefore := forgotten{before.Forgotten, e.Forgotten()}, before.LostHolds
	t.Cleanup(func() {
		t.Helper()
		if t.Failed() {
			return
		}
		s := settle(e)
		if s.Lent.Current > 0 {
			t.Errorf("pintest: %s lent at the end of the test%s", count(s.Requested.Current, "byte of pinned memory is", "bytes of pinned memory are"), leaks(e, pintensor.Leak{}))
		}
		if s.InPlace.Current > 0 {
			t.Errorf("pintest: tensors on %d bytes of pages are registered at the end of the test%s",
				s.InPlace.Current, leaks(e, pintensor.Leak{Registered: true}))
		}
		if s.InFlight.Current > 0 {
			t.Errorf("pintest: copies of %d bytes are in flight %v after the end of the test", s.InFlight.Current, grace)
		}
		if n := e.OpenHolds(); n > 0 {
			t.Errorf("pintest: %s open %v after the end of the test%s", count(int64(n), "hold of Acquire is", "holds of Acquire are"), grace, leaks(e, pintensor.Leak{Held: true}))
		}
		if n := s.LostHolds - lostBefore; n > 0 {
			t.Errorf("pintest: %s dropped in the test, with neither Until nor Done", count(n, "hold of Acquire was", "holds of Acquire were"))
		}
		if n := s.Forgotten - forgottenBefore.count; n > 0 {
			t.Errorf("pintest: %s dropped in the test and not given back%s", count(n, "tensor was", "tensors were"), forgottenBefore.since(e))
		}
	})
}

// count returns a number with what there is that many of.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// settle waits until nothing of e is in use that comes back by itself, for a while.
func settle(e *pintensor.Engine) pintensor.Stats {
	collections := 0
	for deadline := time.Now().Add(grace); ; time.Sleep(time.Millisecond) {
		s := e.Stats() // asks the copies whether they are done
		coming := s.InFlight.Current > 0 || s.Allocated > 0 || e.OpenHolds() > 0 || s.Lent.Current > 0 && collections < enough
		if !coming || time.Now().After(deadline) {
			return s
		}
		if s.Lent.Current > 0 {
			runtime.GC()
			collections++
		}
	}
}

// enough collections find what was dropped: two do, and finalizers run some time after.
const enough = 10

// advice is what to do for more in a message.
const advice = " (an engine made with pintensor.WithLeakTracking knows which lines made them)"

// leaks lists those of the kind: what is lent, registered or held.
func leaks(e *pintensor.Engine, kind pintensor.Leak) string {
	all := e.Leaks()
	if all == nil {
		return advice
	}
	var s strings.Builder
	for _, l := range all {
		if l.Registered == kind.Registered && l.Held == kind.Held {
			fmt.Fprintf(&s, "\n%v", l)
		}
	}
	return s.String()
}

// forgotten is what an engine had forgotten at some moment.
type forgotten struct {
	count  int64
	places []pintensor.Forgotten
}

// since lists the places that have forgotten more since.
func (f forgotten) since(e *pintensor.Engine) string {
	now := e.Forgotten()
	if now == nil {
		return advice
	}
	had := make(map[string]pintensor.Forgotten)
	for _, p := range f.places {
		had[fmt.Sprint(p.Callers)] = p
	}
	var s strings.Builder
	for _, p := range now {
		old := had[fmt.Sprint(p.Callers)]
		p.Count -= old.Count
		p.Bytes -= old.Bytes
		if p.Count > 0 {
			fmt.Fprintf(&s, "\n%v", p)
		}
	}
	return s.String()
}
