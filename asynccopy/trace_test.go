package asynccopy_test

// This file tests what a trace says, against what ran.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// line is a line of a trace, as Perfetto reads it.
type line struct {
	Name, Ph, Cat string
	Ts, Dur       float64
	Pid, Tid      int
	Args          map[string]any
}

func (l line) end() float64 { return l.Ts + l.Dur }

// lines reads a trace that is complete.
func lines(t testing.TB, b []byte) (all []line) {
	t.Helper()
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatalf("the trace is not JSON: %v\n%s", err, b)
	}
	return all
}

// spans returns the spans with a name, by their start.
func spans(all []line, name string) []line {
	var found []line
	for _, l := range all {
		if l.Ph == "X" && l.Name == name {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b line) int { return int(a.Ts - b.Ts) })
	return found
}

// named returns the process and the thread that has a name.
func named(t testing.TB, all []line, name string) (pid, tid int) {
	t.Helper()
	for _, l := range all {
		if l.Ph == "M" && l.Args["name"] == name {
			return l.Pid, l.Tid
		}
	}
	t.Fatalf("nothing is named %q in %+v", name, all)
	return 0, 0
}

// tracedRig is a rig whose device is traced into the buffer.
func tracedRig(t *testing.T, drv driver.Driver) (*rig, *asynccopy.Trace, *bytes.Buffer) {
	t.Helper()
	r := newRig(t, drv)
	var b bytes.Buffer
	trace := asynccopy.NewTrace(&b)
	dev, err := asynccopy.OpenDriver(r.drv, 0, asynccopy.WithTrace(trace))
	r.ok(err)
	r.ok(r.dev.Close())
	dev.SetEngine(r.engine)
	r.dev = dev
	return r, trace, &b
}

func TestTraceShowsWhatRan(t *testing.T) {
	onEachDriver(t, func(t *testing.T, drv driver.Driver) {
		r, trace, b := tracedRig(t, drv)
		if r.dev.Trace() != trace {
			t.Error("the device has another trace")
		}
		f, unload := r.kernel("axpy")
		a, c := r.stream(), r.stream()
		x := must(a.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2})), true))(r)
		loading := trace.Span("loader", `batch "1"`)
		r.axpy(c, f, x, x, 1)
		down := must(a.ToHost(x, false))(r)
		host := must(down.Wait(context.Background()))(r)
		if got := host.Float32s(); !slices.Equal(got, []float32{2, 4}) {
			t.Errorf("got %v", got)
		}
		loading.End()
		r.release(host)
		r.ok(x.Release())
		name := r.dev.String()
		unload()
		r.end()
		r.ok(trace.Close())
		r.ok(trace.Close())

		all := lines(t, b.Bytes())
		device, _ := named(t, all, name)
		for _, want := range []struct {
			name, cat, track string
			bytes            any
		}{{"HtoD", "copy", "stream 2", 8.0}, {"axpy", "kernel", "stream 3", nil}, {"DtoH", "copy", "stream 2", 8.0}} {
			_, tid := named(t, all, want.track)
			found := slices.DeleteFunc(spans(all, want.name), func(l line) bool { return l.Cat != want.cat })
			if len(found) != 1 || found[0].Pid != device || found[0].Tid != tid || found[0].Args["bytes"] != want.bytes {
				t.Errorf("%s: %+v, want one in process %d, thread %d, with bytes %v", want.name, found, device, tid, want.bytes)
			}
		}
		in, out := spans(all, "HtoD")[0], spans(all, "DtoH")[0]
		kernels := spans(all, "axpy") // Issue's and the launch's, which is inside
		if len(kernels) != 2 || in.end() > kernels[1].Ts+1 || kernels[0].end() > out.Ts+1 {
			t.Errorf("the copy in %+v, the kernel %+v and the copy out %+v are not in order", in, kernels, out)
		}
		// Elsewhere the work that would be waited for may be done already.
		if waits := spans(all, "wait"); len(waits) < 2 && strings.HasSuffix(t.Name(), "/late") {
			t.Errorf("the streams waited %d times for each other, want 2 or more", len(waits))
		}
		_, loader := named(t, all, "loader")
		// The device's clock is set by the host's, which on a busy machine is known to some milliseconds only.
		if l := spans(all, `batch "1"`); len(l) != 1 || l[0].Pid != 0 || l[0].Tid != loader || l[0].end()+100e3 < out.Ts {
			t.Errorf("the loader's span is %+v", l)
		}
		nested(t, all)
	})
}

// onEachDriver is onEach for tests that make their own rig.
func onEachDriver(t *testing.T, test func(t *testing.T, drv driver.Driver)) {
	for _, kind := range devices {
		t.Run(kind.name, func(t *testing.T) { test(t, kind.driver(t)) })
	}
}

// nested fails the test if spans of one thread overlap without one being inside the other.
func nested(t testing.TB, all []line) {
	t.Helper()
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Ph != "X" || b.Ph != "X" || a.Pid != b.Pid || a.Tid != b.Tid {
				continue
			}
			if a.Ts > b.Ts {
				a, b = b, a
			}
			const slack = 0.002 // µs; the sum of two rounded numbers
			if b.Ts < a.end()-slack && b.end() > a.end()+slack {
				t.Errorf("%+v and %+v overlap", a, b)
			}
		}
	}
}

// TestTraceIsExact runs for more than a second, so that the base of times moves on.
func TestTraceIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drv := soft.New(soft.Config{Host: locking{}, Delay: func(op soft.Op) time.Duration {
			return map[string]time.Duration{"CopyHtoD": 500 * time.Millisecond, "Launch": 700 * time.Microsecond}[op.Call]
		}})
		r, trace, b := tracedRig(t, drv)
		f, unload := r.kernel("spin")
		s := r.stream()
		x := must(s.Empty(tensor.Uint8, 3))(r)
		src := r.pinned(3, 1)
		start := time.Now()
		for range 5 {
			r.ok(s.ToDeviceInto(x, src, true))
			r.ok(s.Issue("step", func(dev driver.Device, stream driver.Stream) error {
				return dev.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, stream, []uint64{1000})
			}))
		}
		r.ok(s.Synchronize(context.Background()))
		if took := time.Since(start); took != 5*(500*time.Millisecond+701*time.Microsecond) {
			t.Fatalf("took %v", took)
		}
		r.release(src)
		r.ok(x.Release())
		unload()
		r.end()
		r.ok(trace.Close())
		all := lines(t, b.Bytes())
		copies, kernels, steps := spans(all, "HtoD"), spans(all, "spin"), spans(all, "step")
		if len(copies) != 5 || len(kernels) != 5 || len(steps) != 5 {
			t.Fatalf("%d copies, %d kernels, %d steps, want 5 each", len(copies), len(kernels), len(steps))
		}
		for i := range 5 {
			at := float64(i) * (500e3 + 701)
			for _, c := range []struct{ got, want float64 }{
				{copies[i].Ts - copies[0].Ts, at}, {copies[i].Dur, 500e3}, {kernels[i].Ts - copies[0].Ts, at + 500e3}, {kernels[i].Dur, 701}, {steps[i].Dur, 701},
			} {
				if d := c.got - c.want; d < -0.01 || d > 0.01 {
					t.Errorf("round %d: %v µs, want %v: %+v, %+v", i, c.got, c.want, copies[i], kernels[i])
				}
			}
		}
	})
}

// TestTraceIsBounded issues more than is followed while the device is stuck.
func TestTraceIsBounded(t *testing.T) {
	r, trace, b := tracedRig(t, soft.New(soft.Config{Host: locking{}}))
	dev, s := r.dev.Driver(), r.stream()
	stuck := make(chan struct{})
	m := must(dev.LoadModule(driver.Image{Go: map[string]driver.Kernel{"stuck": func(driver.Memory, driver.Dim3, driver.Dim3, []uint64) error {
		<-stuck
		return nil
	}}}))(r)
	f := must(dev.Function(m, "stuck"))(r)
	const more = 5
	r.ok(s.Issue("flood", func(dev driver.Device, stream driver.Stream) error {
		errs := dev.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, stream, nil)
		for range asynccopy.MaxFollowed - 1 + more {
			errs = errors.Join(errs, dev.Memset(0, 0, 0, stream, 0))
		}
		return errs
	}))
	close(stuck)
	r.ok(s.Synchronize(context.Background()))
	r.ok(dev.UnloadModule(m))
	r.end()
	r.ok(trace.Close())
	all := lines(t, b.Bytes())
	if got := len(spans(all, "fill")) + len(spans(all, "stuck")) + len(spans(all, "flood")); got != asynccopy.MaxFollowed+1 {
		t.Errorf("%d pieces of work in the trace, want %d", got, asynccopy.MaxFollowed+1)
	}
	if !slices.ContainsFunc(all, func(l line) bool {
		return l.Ph == "i" && l.Name == fmt.Sprint(more, " pieces of work left out")
	}) {
		t.Error("the trace does not say what it left out")
	}
}

func TestTraceOfCaptures(t *testing.T) {
	r, trace, b := tracedRig(t, soft.New(soft.Config{Host: locking{}, Late: true}))
	dev, s := r.dev.Driver(), r.stream()
	x := must(s.Empty(tensor.Uint8, 8))(r)
	r.ok(x.Use(s))
	var g driver.Graph
	r.ok(s.Issue("begin", func(dev driver.Device, stream driver.Stream) error { return dev.BeginCapture(stream) }))
	r.ok(s.Issue("captured", func(dev driver.Device, stream driver.Stream) error {
		return dev.Memset(driver.DevicePtr(x.DevicePtr()), 1, 8, stream, 0)
	}))
	r.ok(s.Issue("end", func(dev driver.Device, stream driver.Stream) (err error) { g, err = dev.EndCapture(stream); return err }))
	r.ok(s.Issue("replay", func(dev driver.Device, stream driver.Stream) error { return dev.LaunchGraph(g, stream) }))
	r.ok(s.Synchronize(context.Background()))
	r.ok(dev.DestroyGraph(g))
	r.ok(x.Release())
	r.end()
	r.ok(trace.Close())
	all := lines(t, b.Bytes())
	for name, want := range map[string]int{"begin": 0, "captured": 0, "fill": 0, "end": 0, "graph": 1, "replay": 1} {
		if got := len(spans(all, name)); got != want {
			t.Errorf("%d spans %q, want %d", got, name, want)
		}
	}
}

// TestTraceFails: tracing that fails harms no work, leaves nothing behind, and is reported.
func TestTraceFails(t *testing.T) {
	for _, call := range []string{"NewTimingEvent", "Record", "Query", "Elapsed", "SyncEvent", "DestroyEvent"} {
		for n := 1; n <= 12; n++ {
			t.Run(fmt.Sprint(call, n), func(t *testing.T) {
				leak.Check(t)
				faulty := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{Host: locking{}})))
				trace := asynccopy.NewTrace(new(bytes.Buffer))
				faulty.FailNth(call, n, nil)
				dev, err := asynccopy.OpenDriver(faulty, 0, asynccopy.WithTrace(trace))
				if err != nil {
					if !errors.Is(err, drivertest.ErrInjected) || !strings.HasPrefix(err.Error(), "asynccopy: ") {
						t.Errorf("OpenDriver: %v, want the injected error", err)
					}
					return
				}
				err = nil
				s, failed := dev.NewStream()
				err = errors.Join(err, failed)
				if failed == nil {
					for range 4 {
						x, failed := s.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2})), false)
						err = errors.Join(err, failed)
						if failed == nil {
							err = errors.Join(err, x.Release())
						}
					}
				}
				err = errors.Join(err, dev.Close(), trace.Close())
				hit := faulty.Calls(call) >= n
				if hit != errors.Is(err, drivertest.ErrInjected) {
					t.Errorf("call %d of %s failed: %v; reported: %v", n, call, hit, err)
				}
			})
		}
	}
}

// brokenPipe fails after a number of bytes.
type brokenPipe struct{ left int }

var errBroken = errors.New("broken pipe")

func (w *brokenPipe) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errBroken
	}
	return len(b), nil
}

func TestTraceReportsWriting(t *testing.T) {
	leak.Check(t)
	for _, left := range []int{0, 100 << 10} {
		trace := asynccopy.NewTrace(&brokenPipe{left})
		for range 2000 {
			trace.Span("track", "name").End()
		}
		if err := trace.Close(); !errors.Is(err, errBroken) {
			t.Errorf("Close after %d bytes: %v, want the writer's error", left, err)
		}
		if err := trace.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
	}
	none := asynccopy.NewTrace(nil)
	none.Span("track", "name").End()
	refused(t, "a nil writer", none.Close(), "NewTrace", "nil")
}

func TestTraceLanes(t *testing.T) {
	leak.Check(t)
	var b bytes.Buffer
	trace := asynccopy.NewTrace(&b)
	one := trace.Span("worker", "one")
	two := trace.Span("worker", "two")
	one.End()
	three := trace.Span("worker", "three") // in the place of one
	two.End()
	three.End()
	late := trace.Span("worker", "late")
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	late.End()
	trace.Span("worker", "too late").End()
	all := lines(t, b.Bytes())
	_, first := named(t, all, "worker")
	_, second := named(t, all, "worker 2")
	for name, tid := range map[string]int{"one": first, "two": second, "three": first} {
		if got := spans(all, name); len(got) != 1 || got[0].Tid != tid {
			t.Errorf("%s: %+v, want thread %d", name, got, tid)
		}
	}
	nested(t, all)
	if strings.Contains(b.String(), "late") {
		t.Error("what ended after Close was written")
	}
}

func TestNoTraceCostsNothing(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	trace := r.dev.Trace()
	if trace != nil {
		t.Fatal("a device that was opened without has a trace")
	}
	if n := testing.AllocsPerRun(100, func() { trace.Span("loader", "batch").End() }); n != 0 {
		t.Errorf("a span of no trace allocates %v times", n)
	}
	r.ok(trace.Close())
	if _, err := asynccopy.OpenSoft(asynccopy.WithTrace(nil)); err == nil || !strings.Contains(err.Error(), "WithTrace: t is nil") {
		t.Errorf("OpenSoft with a nil trace: %v", err)
	}
}
