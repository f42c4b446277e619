//go:build linux && (amd64 || arm64)

package cuda

// This file tests the calls of kernels, graphs and timing events on the fake library.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

var fakeImage = driver.Image{CUDA: []byte("image")}

// useKernels calls everything in this test's domain, as useAll does.
func useKernels(d driver.Device, note func(error) bool) {
	s, err := d.NewStream(0)
	if !note(err) {
		return
	}
	if m, err := d.LoadModule(fakeImage); note(err) {
		if f, err := d.Function(m, "f"); note(err) {
			note(d.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, nil))
		}
		note(d.UnloadModule(m))
	}
	if note(d.BeginCapture(s)) {
		_, err := d.CaptureDependencies(s, nil)
		note(err)
		note(d.SetCaptureDependencies(s, nil))
		if g, err := d.EndCapture(s); note(err) {
			note(d.LaunchGraph(g, s))
			note(d.DestroyGraph(g))
		}
	}
	if e, err := d.NewTimingEvent(); note(err) {
		_, err := d.Elapsed(e, e)
		note(err)
		note(d.DestroyEvent(e))
	}
	note(d.DestroyStream(s))
}

// TestKernelArguments compares what reaches the library with cuda.h.
func TestKernelArguments(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	m, err := d.LoadModule(fakeImage)
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Function(m, "f")
	if err != nil || f != fakeFunction {
		t.Fatalf("Function: %#x, %v", f, err)
	}
	const s = driver.Stream(0x77)
	l.took()
	if err := d.Launch(f, driver.Dim3{X: 2, Y: 3, Z: 4}, driver.Dim3{X: 5}, 6, s, []uint64{1 << 40, 8, 9}); err != nil {
		t.Fatal(err)
	}
	if want := []uint64{1 << 40, 8, 9}; !slices.Equal(l.params, want) {
		t.Errorf("parameters %v, want %v", l.params, want)
	}
	call := l.took()[0]
	if want := fmt.Sprintf("cuLaunchKernel[%x 2 3 4 5 1 1 6 77 ", fakeFunction); !strings.HasPrefix(call, want) || !strings.HasSuffix(call, " 0]") {
		t.Errorf("made the call %s, want %s... 0]", call, want)
	}
	many := make([]uint64, 5*usualParams)
	many[0], many[1], many[2] = 1, 2, 3
	if err := d.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, many); err != nil || !slices.Equal(l.params, many[:3]) {
		t.Errorf("with %d arguments: %v, parameters %v", len(many), err, l.params)
	}
	l.took()
	if err := d.BeginCapture(s); err != nil {
		t.Fatal(err)
	}
	g, err := d.EndCapture(s)
	if err != nil {
		t.Fatal(err)
	}
	calls := l.took()
	for i, want := range []string{"cuStreamBeginCapture_v2[77 2]", "cuStreamEndCapture[77 ", "cuGraphInstantiateWithFlags[", "cuGraphDestroy["} {
		if !strings.HasPrefix(calls[i], want) {
			t.Errorf("made the calls %s, want %s", calls, want)
		}
	}
	if err := d.LaunchGraph(g, s); err != nil {
		t.Fatal(err)
	}
	if calls := l.took(); calls[0] != fmt.Sprintf("cuGraphLaunch[%x 77]", g) {
		t.Errorf("made the calls %s", calls)
	}
	e, err := d.NewTimingEvent()
	if err != nil {
		t.Fatal(err)
	}
	if calls := l.took(); !strings.HasSuffix(calls[0], " 0]") {
		t.Errorf("made the calls %s, want flags without CU_EVENT_DISABLE_TIMING", calls)
	}
	if took, err := d.Elapsed(e, 5); took != 1500*time.Microsecond || err != nil {
		t.Errorf("Elapsed: %v, %v", took, err)
	}
	if calls := l.took(); !strings.HasSuffix(calls[0], fmt.Sprintf(" %x 5]", e)) {
		t.Errorf("made the calls %s", calls)
	}
	if err := errors.Join(d.DestroyEvent(e), d.DestroyGraph(g), d.UnloadModule(m), d.Close()); err != nil {
		t.Error(err)
	}
}

func TestBadImages(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	_, err := d.LoadModule(driver.Image{CUDA: []byte("bad code")})
	var e *driver.Error
	if !errors.As(err, &e) || e.Code != driver.CodeInvalidPTX || e.Text != "String of 218: line 1: bad code" {
		t.Errorf("bad code: %v, want what the compiler says of it", err)
	}
	if _, err := d.LoadModule(driver.Image{Go: map[string]driver.Kernel{}}); !errors.Is(err, driver.ErrNotSupported) {
		t.Errorf("nothing for CUDA: %v, want ErrNotSupported", err)
	}
	m, err := d.LoadModule(fakeImage)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := d.Function(m, "missing"); f != 0 || !strings.Contains(err.Error(), "kernel missing (500)") {
		t.Errorf("Function: %#x, %v, want the kernel's name", f, err)
	}
	if err := errors.Join(d.UnloadModule(m), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestFailedEndCaptureKeepsNothing: newFake's cleanup would find a graph that is left.
func TestFailedEndCaptureKeepsNothing(t *testing.T) {
	leak.Check(t)
	for _, name := range []string{"cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy"} {
		t.Run(name, func(t *testing.T) {
			l := newFake(t)
			_, d := openFake(t, l, 0)
			l.fail[name] = fakeError
			if g, err := d.EndCapture(1); g != 0 || !mentions(err, name) {
				t.Errorf("EndCapture: %#x, %v", g, err)
			}
			if name == "cuGraphDestroy" {
				l.forgive(name)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCaptureDependencies(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	const s = driver.Stream(0x77)
	if nodes, err := d.CaptureDependencies(s, []driver.Node{1}); !slices.Equal(nodes, []driver.Node{1}) || err == nil || !strings.Contains(err.Error(), "not being captured") {
		t.Errorf("not captured: %v, %v", nodes, err)
	}
	l.capturing = 1
	l.took()
	if err := d.SetCaptureDependencies(s, []driver.Node{5, 6}); err != nil {
		t.Fatal(err)
	}
	if calls := l.took(); !strings.HasPrefix(calls[0], "cuStreamUpdateCaptureDependencies[77 ") || !strings.HasSuffix(calls[0], " 2 1]") {
		t.Errorf("made the calls %s, want 2 nodes, and CU_STREAM_SET_CAPTURE_DEPENDENCIES", calls)
	}
	if nodes, err := d.CaptureDependencies(s, []driver.Node{1}); !slices.Equal(nodes, []driver.Node{1, 5, 6}) || err != nil {
		t.Errorf("%v, %v, want what was set", nodes, err)
	}
	if calls := l.took(); !strings.HasPrefix(calls[0], "cuStreamGetCaptureInfo_v2[77 ") || !strings.Contains(calls[0], " 0 0 ") {
		t.Errorf("made the calls %s", calls)
	}
	if err := d.SetCaptureDependencies(s, nil); err != nil {
		t.Fatal(err)
	}
	if calls := l.took(); calls[0] != "cuStreamUpdateCaptureDependencies[77 0 0 1]" {
		t.Errorf("made the calls %s, want none", calls)
	}
	if nodes, err := d.CaptureDependencies(s, nil); len(nodes) != 0 || err != nil {
		t.Errorf("%v, %v, want none", nodes, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoDependenciesBefore113(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	l.missing = []string{"cuStreamGetCaptureInfo_v2", "cuStreamUpdateCaptureDependencies"}
	_, d := openFake(t, l, 0)
	_, err := d.CaptureDependencies(1, nil)
	for _, err := range []error{err, d.SetCaptureDependencies(1, nil)} {
		if !errors.Is(err, driver.ErrNotSupported) || !strings.Contains(err.Error(), "CUDA 11.3") {
			t.Errorf("%v, want ErrNotSupported and the version", err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestNoGraphsBefore114(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	l.missing = []string{"cuGraphInstantiateWithFlags"}
	_, d := openFake(t, l, 0)
	if err := d.BeginCapture(1); !errors.Is(err, driver.ErrNotSupported) || !strings.Contains(err.Error(), "CUDA 11.4") {
		t.Errorf("BeginCapture: %v, want ErrNotSupported and the version", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestLaunchDoesNotAllocate(t *testing.T) {
	leak.Check(t)
	if poolDrops {
		t.Skip("the race detector makes sync.Pool allocate")
	}
	d := silent(t)
	args := []uint64{1, 2, 3}
	if n := testing.AllocsPerRun(1000, func() {
		if err := errors.Join(d.Launch(9, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, 2, args), d.LaunchGraph(1, 2)); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a launch allocates %v times", n)
	}
}

func BenchmarkLaunch(b *testing.B) {
	d := silent(b)
	args := []uint64{1, 2, 3}
	b.Run("library=silent", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := d.Launch(9, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, 2, args); err != nil {
				b.Fatal(err)
			}
		}
	})
}
