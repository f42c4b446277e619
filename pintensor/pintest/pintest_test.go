package pintest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"github.com/pintensor/pin/pintensor/pintest"
)

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
	failed   bool
}

func (r *recorder) Helper()          {}
func (r *recorder) Failed() bool     { return r.failed }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) end() []string {
	for _, f := range r.cleanups {
		f()
	}
	return r.errors
}

func newEngine(t testing.TB, opts ...pintensor.Option) *pintensor.Engine {
	t.Helper()
	e, err := pintensor.NewEngine(append([]pintensor.Option{pintensor.WithDriver(soft.Host())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// make32 lends a tensor; its name is what messages are searched for.
func make32(t testing.TB, e *pintensor.Engine) *tensor.Dense {
	t.Helper()
	d, err := e.New(tensor.Float32, 8)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func release(t testing.TB, e *pintensor.Engine, d *tensor.Dense) {
	t.Helper()
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}

// unregister is the function of what registerIt registered.
var unregister func() error

// hold is the latest of acquireIt.
var hold pintensor.Hold

func acquireIt(t testing.TB, d *tensor.Dense) pintensor.Hold {
	t.Helper()
	h, err := pintensor.Acquire(d)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// registerIt registers a tensor, and drops it.
func registerIt(t testing.TB, e *pintensor.Engine) {
	t.Helper()
	var err error
	if unregister, err = e.Register(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(8))); err != nil {
		t.Fatal(err)
	}
}

// copying is a copy that is done after a while, or never.
type copying struct{ until time.Time }

func (c copying) Done() (bool, error) { return time.Now().After(c.until), nil }
func (c copying) Wait(ctx context.Context) error {
	select {
	case <-time.After(time.Until(c.until)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func copyFor(t testing.TB, d *tensor.Dense, long time.Duration) {
	t.Helper()
	h, err := pintensor.Acquire(d)
	if err != nil {
		t.Fatal(err)
	}
	h.Until(copying{time.Now().Add(long)})
}

func collect(t testing.TB, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	t.Error("the collector does not find what was dropped")
}

func TestCheck(t *testing.T) {
	before := pintest.SetGrace(200 * time.Millisecond)
	t.Cleanup(func() { pintest.SetGrace(before) })
	var kept *tensor.Dense
	cases := map[string]struct {
		test func(t *testing.T, e *pintensor.Engine)
		want []string // one for each complaint: what it says, with tracking
	}{
		"nothing": {func(*testing.T, *pintensor.Engine) {}, nil},
		"released": {func(t *testing.T, e *pintensor.Engine) {
			release(t, e, make32(t, e))
		}, nil},
		"closed": {func(t *testing.T, e *pintensor.Engine) {
			release(t, e, make32(t, e))
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}, nil},
		"lent": {func(t *testing.T, e *pintensor.Engine) {
			kept = make32(t, e)
		}, []string{"32 bytes of pinned memory are lent"}},
		"dropped and collected": {func(t *testing.T, e *pintensor.Engine) {
			func() { make32(t, e) }()
			collect(t, func() bool { return e.Stats().Reclaimed == 2 })
		}, []string{"pintest: 1 tensor was dropped in the test and not given back"}},
		"two, dropped and collected": {func(t *testing.T, e *pintensor.Engine) {
			func() { make32(t, e); make32(t, e) }()
			collect(t, func() bool { return e.Stats().Reclaimed == 3 })
		}, []string{"pintest: 2 tensors were dropped in the test and not given back"}},
		"a copy that takes a while": {func(t *testing.T, e *pintensor.Engine) {
			d := make32(t, e)
			copyFor(t, d, 20*time.Millisecond)
			release(t, e, d)
		}, nil},
		"a copy that takes too long": {func(t *testing.T, e *pintensor.Engine) {
			d := make32(t, e)
			copyFor(t, d, 400*time.Millisecond)
			release(t, e, d)
		}, []string{"are in flight 200ms after"}},
		"registered and lent": {func(t *testing.T, e *pintensor.Engine) {
			kept = make32(t, e)
			registerIt(t, e)
		}, []string{"32 bytes of pinned memory are lent", "bytes of pages are registered"}},
		"registered and dropped": {func(t *testing.T, e *pintensor.Engine) {
			func() { registerIt(t, e); unregister = nil }()
			collect(t, func() bool { return e.Stats().Reclaimed == 2 })
		}, []string{"pintest: 1 tensor was dropped in the test and not given back"}},
		"released under a hold": {func(t *testing.T, e *pintensor.Engine) {
			d := make32(t, e)
			hold = acquireIt(t, d)
			release(t, e, d)
		}, []string{"pintest: 1 hold of Acquire is open 200ms after"}},
		"dropped with a hold": {func(t *testing.T, e *pintensor.Engine) {
			func() {
				d := make32(t, e)
				acquireIt(t, d)
				release(t, e, d)
			}()
			collect(t, func() bool { return e.Stats().LostHolds == 1 })
		}, []string{"pintest: 1 hold of Acquire was dropped in the test, with"}},
		"allowed to be dropped": {func(t *testing.T, e *pintensor.Engine) {
			func() {
				if err := e.AllowDrop(make32(t, e)); err != nil {
					t.Error(err)
				}
			}()
		}, nil},
		"results of arithmetic": {func(t *testing.T, e *pintensor.Engine) {
			a := tensor.New(tensor.WithEngine(e), tensor.Of(tensor.Float32), tensor.WithShape(3))
			if _, err := a.Add(a); err != nil {
				t.Error(err)
			}
		}, nil},
		"arithmetic on what is lent": {func(t *testing.T, e *pintensor.Engine) {
			kept = make32(t, e)
			a := tensor.New(tensor.WithEngine(e), tensor.Of(tensor.Float32), tensor.WithShape(8))
			if _, err := a.Add(a); err != nil {
				t.Error(err)
			}
		}, []string{"32 bytes of pinned memory are lent"}},
	}
	for name, c := range cases {
		for _, tracking := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/tracking=%v", name, tracking), func(t *testing.T) {
				leak.Check(t)
				var opts []pintensor.Option
				if tracking {
					opts = append(opts, pintensor.WithLeakTracking())
				}
				e := newEngine(t, opts...)
				func() { make32(t, e) }() // before Check: not the test's
				collect(t, func() bool { return e.Stats().Reclaimed == 1 })

				r := &recorder{TB: t}
				pintest.Check(r, e)
				c.test(t, e)
				got := r.end()
				if len(got) != len(c.want) {
					t.Fatalf("complaints: %q, want %q", got, c.want)
				}
				for i := range got {
					if !strings.Contains(got[i], c.want[i]) {
						t.Errorf("complaint %q, want %q", got[i], c.want[i])
					}
					aboutLines := !strings.Contains(got[i], "in flight") && !strings.Contains(got[i], "hold of Acquire was dropped")
					if aboutLines && names(got[i]) != tracking {
						t.Errorf("with tracking %v the complaint is %q", tracking, got[i])
					}
					if aboutLines && strings.Contains(got[i], "WithLeakTracking") == tracking {
						t.Errorf("with tracking %v the complaint is %q", tracking, got[i])
					}
				}
				if unregister != nil {
					if err := unregister(); err != nil {
						t.Error(err)
					}
					unregister = nil
				}
				hold.Done()
				hold = pintensor.Hold{}
				if kept != nil {
					release(t, e, kept)
					kept = nil
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// names reports whether a complaint names a line that made something.
func names(complaint string) bool {
	return strings.Contains(complaint, "pintest_test.make32") || strings.Contains(complaint, "pintest_test.registerIt") ||
		strings.Contains(complaint, "pintest_test.acquireIt")
}

func TestCheckLeavesFailedTestsAlone(t *testing.T) {
	e := newEngine(t)
	r := &recorder{TB: t}
	pintest.Check(r, e)
	d := make32(t, e)
	r.failed = true
	if got := r.end(); got != nil {
		t.Errorf("complaints about a test that failed: %q", got)
	}
	release(t, e, d)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestCheckOfNil(t *testing.T) {
	r := &recorder{TB: t}
	pintest.Check(r, nil)
	if got := r.end(); len(got) != 1 || !strings.Contains(got[0], "e is nil") {
		t.Errorf("complaints: %q", got)
	}
}

// printer is a testing.TB for examples, since these have none: it prints the first line of a failure.
type printer struct {
	recorder
}

func (p *printer) Errorf(format string, args ...any) {
	line, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	fmt.Println("FAIL:", line)
}

// run runs a test as package testing does.
func run(test func(testing.TB)) {
	p := new(printer)
	test(p)
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
}
