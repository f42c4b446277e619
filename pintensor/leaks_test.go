package pintensor

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

// here is the line that it is called from.
func here() (line int) {
	_, _, line, _ = runtime.Caller(1)
	return line
}

func TestLeaksNamesTheLine(t *testing.T) {
	e := newRig(t, WithLeakTracking())
	if l := e.Leaks(); l == nil || len(l) != 0 {
		t.Errorf("at first: %v, want none", l)
	}
	calls := map[string]func() (*tensor.Dense, error){
		"new":   func() (*tensor.Dense, error) { return e.New(tensor.Float32, 4, 6) },
		"empty": func() (*tensor.Dense, error) { return e.Empty(tensor.Float32, 4, 6) },
		"pin": func() (*tensor.Dense, error) {
			return e.Pin(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 6)))
		},
		"ensure": func() (*tensor.Dense, error) {
			return e.EnsurePinned(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 6)))
		},
		"with engine": func() (*tensor.Dense, error) {
			return tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4, 6), tensor.WithEngine(e)), nil
		},
	}
	for name, call := range calls {
		before := time.Now()
		d, line := must[*tensor.Dense](t)(call()), here()
		leaks := e.Leaks()
		if len(leaks) != 1 {
			t.Fatalf("%s: %d leaks, want 1: %v", name, len(leaks), leaks)
		}
		l := leaks[0]
		if l.Bytes != 96 || l.Age < 0 || l.Age > time.Since(before) {
			t.Errorf("%s: %d bytes %v ago, want 96, and at most %v", name, l.Bytes, l.Age, time.Since(before))
		}
		if name != "with engine" && (l.Dtype != tensor.Float32 || !l.Shape.Eq(tensor.Shape{4, 6}) || !strings.Contains(l.Callers[0].Function, "TestLeaksNamesTheLine.func")) {
			t.Errorf("%s: %v", name, l)
		}
		if !slices.ContainsFunc(l.Callers, func(c Caller) bool {
			return c.Line == line && strings.HasSuffix(c.File, "leaks_test.go") && strings.HasSuffix(c.Function, ".TestLeaksNamesTheLine")
		}) {
			t.Errorf("%s: line %d of this test is not among\n%v", name, line, l)
		}
		if strings.Contains(l.String(), "pintensor.(*Engine)") {
			t.Errorf("%s: functions of this package are listed:\n%v", name, l)
		}
		give := e.Release
		if name == "with engine" {
			give = func(d *tensor.Dense) error { return e.Free(d, 96) }
		}
		if err := give(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if l := e.Leaks(); len(l) != 0 {
			t.Errorf("%s: given back, and still listed: %v", name, l)
		}
	}
}

func TestLeaksAreOldestFirstAndWhatCopiesUseIsNone(t *testing.T) {
	e := newRig(t, WithLeakTracking())
	var all []*tensor.Dense
	for i := range 5 {
		all = append(all, must[*tensor.Dense](t)(e.New(tensor.Uint8, i+1)))
	}
	w := newWork()
	useBy(t, all[2], w)
	if err := e.Release(all[2]); err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, l := range e.Leaks() {
		got = append(got, l.Bytes)
	}
	if !slices.Equal(got, []int64{1, 2, 4, 5}) {
		t.Errorf("tensors of %v bytes, want 1 2 4 5", got)
	}
	w.complete()
	for _, i := range []int{0, 1, 3, 4} {
		if err := e.Release(all[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestForgottenNamesTheLine(t *testing.T) {
	e := newRig(t, WithLeakTracking())
	forget := func() { must[*tensor.Dense](t)(e.New(tensor.Uint8, 10)) }
	other := func() { must[*tensor.Dense](t)(e.New(tensor.Uint8, 1000)) }
	before := time.Now()
	for range 3 {
		forget()
	}
	other()
	func() { tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4), tensor.WithEngine(e)) }() // no mistake
	gcUntil(t, "all are reclaimed", func() bool { return e.Stats().Reclaimed == 5 })
	if s := e.Stats(); s.Forgotten != 4 || len(e.Leaks()) != 0 {
		t.Errorf("%d are forgotten and %d lent, want 4 and 0", s.Forgotten, len(e.Leaks()))
	}
	f := e.Forgotten()
	if len(f) != 2 || f[0].Count != 3 || f[0].Bytes != 30 || f[1].Count != 1 || f[1].Bytes != 1000 {
		t.Fatalf("%v", f)
	}
	if f[0].Latest.Before(before) || !strings.HasSuffix(f[0].Callers[0].Function, "TestForgottenNamesTheLine.func1") {
		t.Errorf("%v, at %v", f[0], f[0].Latest)
	}
}

func TestCallsOnOneLineAreOnePlace(t *testing.T) {
	e := newRig(t, WithLeakTracking())
	func() {
		_, _ = must[*tensor.Dense](t)(e.New(tensor.Uint8, 10)), must[*tensor.Dense](t)(e.New(tensor.Uint8, 20))
	}()
	gcUntil(t, "both are reclaimed", func() bool { return e.Stats().Reclaimed == 2 })
	if f := e.Forgotten(); len(f) != 1 || f[0].Count != 2 || f[0].Bytes != 30 {
		t.Errorf("%v, want one place with 2 tensors and 30 bytes", f)
	}
}

// A program that runs for months with thousands of places that forget must not grow by it.
func TestForgottenIsBounded(t *testing.T) {
	leak.Check(t)
	k := newTracker()
	e := &Engine{tracker: k} // lends nothing
	for i := range 3 * maxPlaces {
		b := &block{segment: &segment{eng: e}}
		k.loans[b] = loan{bytes: 1, from: callers{uintptr(i + 1)}}
		k.ended(b, true)
	}
	found := e.Forgotten()
	var sum int64
	for _, f := range found {
		sum += f.Count
	}
	if n := len(k.forgotten); n != maxPlaces+1 || sum != 3*maxPlaces || len(k.loans) != 0 {
		t.Errorf("%d places with %d tensors, want %d with %d", n, sum, maxPlaces+1, 3*maxPlaces)
	}
	if k.forgotten[callers{}].Count != 2*maxPlaces || found[0].Callers != nil || !strings.HasSuffix(found[0].String(), "lent at other places") {
		t.Errorf("the rest is %v", found[0])
	}
}

func TestLeaksWithoutTracking(t *testing.T) {
	e := newRig(t)
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 1))
	if e.Leaks() != nil || e.Forgotten() != nil {
		t.Error("an engine that doesn't track lists something")
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

func TestLeakTrackingFromManyGoroutines(t *testing.T) {
	e := newRig(t, WithLeakTracking())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				d, err := e.New(tensor.Uint8, 1+g*i)
				if err != nil {
					t.Error(err)
					return
				}
				if i%10 == 0 && len(e.Leaks()) == 0 {
					t.Error("a tensor that is lent is not listed")
				}
				if err := e.Release(d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if l := e.Leaks(); len(l) != 0 {
		t.Errorf("at the end: %v", l)
	}
}

func BenchmarkLeakTracking(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("tracking=%v", on), func(b *testing.B) {
			e := benchEngine(b)
			if on {
				if err := WithLeakTracking()(e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				d, err := e.New(tensor.Float32, 16, 16)
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Release(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
