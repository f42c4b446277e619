package soft

// This file tests what becomes of bad kernels, and what CUDA leaves undefined of kernels, graphs and times.

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

var one = driver.Dim3{X: 1}

// launch loads a kernel and launches it on x.a.
func (x *bench) launch(kernel driver.Kernel, args ...uint64) error {
	x.Helper()
	m, err := x.d.LoadModule(driver.Image{Go: map[string]driver.Kernel{"k": kernel}})
	x.ok(err)
	f, err := x.d.Function(m, "k")
	x.ok(err)
	return x.d.Launch(f, one, one, 0, x.a, args)
}

func TestKernelFailuresAreSticky(t *testing.T) {
	var addr driver.DevicePtr
	for name, c := range map[string]struct {
		kernel driver.Kernel
		code   int
		text   string
	}{
		"error": {func(driver.Memory, driver.Dim3, driver.Dim3, []uint64) error { return errors.New("own") },
			driver.CodeLaunchFailure, "kernel k: own"},
		"panic": {func(driver.Memory, driver.Dim3, driver.Dim3, []uint64) error { panic("own") },
			driver.CodeLaunchFailure, "kernel k: panic: own\ngoroutine"},
		"index": {func(_ driver.Memory, _, _ driver.Dim3, args []uint64) error { return errors.New(string(rune(args[7]))) },
			driver.CodeLaunchFailure, "index out of range [7]"},
		"past the end": {func(m driver.Memory, _, _ driver.Dim3, _ []uint64) error { m.Bytes(addr, benchBytes+1); return nil },
			driver.CodeIllegalAddress, "kernel k: no memory of 4097 bytes"},
		"less than nothing": {func(m driver.Memory, _, _ driver.Dim3, _ []uint64) error { m.Bytes(addr, -1); return nil },
			driver.CodeIllegalAddress, "no memory of -1 bytes"},
		"nowhere": {func(m driver.Memory, _, _ driver.Dim3, _ []uint64) error { driver.Values[int64](m, 0, 1); return nil },
			driver.CodeIllegalAddress, "no memory of 8 bytes at 0x0"},
		"misaligned": {func(m driver.Memory, _, _ driver.Dim3, _ []uint64) error {
			driver.Values[float32](m, addr+2, 1)
			return nil
		},
			driver.CodeMisalignedAddress, "kernel k: float32 at"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			x := newBench(t, Config{Late: true}) // so that addr is set before the kernel runs
			addr = x.p
			x.ok(x.launch(c.kernel))
			err := x.d.SyncStream(x.a)
			code(t, err, c.code)
			if err == nil || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "soft.Launch: ") {
				t.Errorf("%v, want %q in it", err, c.text)
			}
			var failed *driver.Error
			if errors.As(err, &failed) && !failed.Sticky() {
				t.Error("it is not sticky")
			}
			if again := x.d.Close(); again != err {
				t.Errorf("Close: %v, want the same error", again)
			}
		})
	}
}

func TestKernelSees(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{Late: true})
	var got []uint64
	args := []uint64{1, 2, 3}
	x.ok(x.launch(func(m driver.Memory, grid, block driver.Dim3, args []uint64) error {
		got = slices.Clone(args)
		clear(args) // its own
		if grid != (driver.Dim3{X: 1, Y: 1, Z: 1}) || block != grid {
			t.Errorf("grid %v, block %v", grid, block)
		}
		if b := m.Bytes(0, 0); b != nil || driver.Values[int64](m, 1, 0) != nil {
			t.Error("nothing has bytes")
		}
		copy(m.Bytes(x.p+1, 2), "ab")
		return nil
	}, args...))
	args[0] = 9
	x.ok(x.d.CopyDtoH(x.at(), x.p, 4, x.a, 0))
	x.ok(x.d.SyncStream(x.a))
	if !slices.Equal(got, []uint64{1, 2, 3}) || string(x.host[1:3]) != "ab" {
		t.Errorf("the kernel got %v and wrote %q", got, x.host[:4])
	}
	x.ok(x.d.Close())
}

// TestGraphKeepsArguments: a kernel that changes its arguments does not change those of the next launch.
func TestGraphKeepsArguments(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{})
	var sum uint64
	x.ok(x.d.BeginCapture(x.a))
	x.ok(x.launch(func(_ driver.Memory, _, _ driver.Dim3, args []uint64) error {
		sum += args[0]
		args[0] = 0
		return nil
	}, 5))
	g, err := x.d.EndCapture(x.a)
	x.ok(err)
	for range 3 {
		x.ok(x.d.LaunchGraph(g, x.a))
	}
	x.ok(x.d.SyncStream(x.a))
	if sum != 15 {
		t.Errorf("three launches saw arguments of %d in all, want 15", sum)
	}
	x.ok(x.d.Close())
}

func TestUnloadedTooEarly(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{Late: true})
	m, err := x.d.LoadModule(driver.Image{Go: map[string]driver.Kernel{"k": func(driver.Memory, driver.Dim3, driver.Dim3, []uint64) error {
		t.Error("it ran")
		return nil
	}}})
	x.ok(err)
	f, err := x.d.Function(m, "k")
	x.ok(err)
	x.ok(x.d.Launch(f, one, one, 0, x.a, nil))
	x.ok(x.d.UnloadModule(m))
	code(t, x.d.Launch(f, one, one, 0, x.a, nil), driver.CodeInvalidHandle)
	code(t, x.d.UnloadModule(m), driver.CodeInvalidHandle)
	code(t, x.d.SyncStream(x.a), driver.CodeLaunchFailure)
	if err := x.d.Close(); err == nil {
		t.Error("the device does not know")
	}
}

func TestBadImages(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{})
	_, err := x.d.LoadModule(driver.Image{CUDA: []byte("PTX")})
	code(t, err, driver.CodeNotSupported)
	_, err = x.d.LoadModule(driver.Image{Go: map[string]driver.Kernel{"k": nil}})
	code(t, err, driver.CodeInvalidValue)
	x.ok(x.d.Close())
}

// TestHooksSeeKernels: a test chooses by name which kernel is slow, or fails.
func TestHooksSeeKernels(t *testing.T) {
	leak.Check(t)
	var seen []Op
	x := newBench(t, Config{Fail: func(op Op) error { seen = append(seen, op); return errors.New("own") }})
	e, err := x.d.NewTimingEvent()
	x.ok(err)
	x.ok(x.d.Record(e, x.a)) // notes the time, which is no operation for a hook
	x.ok(x.launch(func(driver.Memory, driver.Dim3, driver.Dim3, []uint64) error { return nil }))
	code(t, x.d.SyncStream(x.a), driver.CodeLaunchFailure)
	if len(seen) != 1 || seen[0].Call != "Launch" || seen[0].Kernel != "k" {
		t.Errorf("operations seen: %+v", seen)
	}
	if err := x.d.Close(); err == nil {
		t.Error("the device does not know")
	}
}

func TestCaptureRefuses(t *testing.T) {
	for name, call := range map[string]func(*bench) error{
		"Record":          func(x *bench) error { return x.d.Record(x.e, x.a) },
		"WaitEvent":       func(x *bench) error { return x.d.WaitEvent(x.a, x.e) },
		"SyncStream":      func(x *bench) error { return x.d.SyncStream(x.a) },
		"copy with event": func(x *bench) error { return x.d.CopyHtoD(x.p, x.at(), 1, x.a, x.e) },
		"AllocAsync":      func(x *bench) error { return second(x.d.AllocAsync(1, x.a)) },
		"BeginCapture":    func(x *bench) error { return x.d.BeginCapture(x.a) },
		"FreeAsync": func(x *bench) error {
			p, err := x.d.AllocAsync(1, x.b)
			x.ok(err)
			return x.d.FreeAsync(p, x.a)
		},
		"LaunchGraph": func(x *bench) error {
			x.ok(x.d.BeginCapture(x.b))
			g, err := x.d.EndCapture(x.b)
			x.ok(err)
			return x.d.LaunchGraph(g, x.a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			x := newBench(t, Config{})
			x.ok(x.d.BeginCapture(x.a))
			code(t, call(x), driver.CodeCaptureUnsupported)
			_, err := x.d.EndCapture(x.a)
			code(t, err, driver.CodeCaptureInvalidated)
			_, err = x.d.EndCapture(x.a)
			code(t, err, codeIllegalState)
			x.ok(x.d.Memset(x.p, 1, 1, x.a, x.e)) // it is an ordinary stream again
			x.ok(x.d.SyncEvent(x.e))
			x.ok(x.d.Close())
		})
	}
}

func TestGraphOfFreedMemory(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{})
	x.ok(x.d.BeginCapture(x.a))
	x.ok(x.d.Memset(x.p, 1, 1, x.a, 0))
	g, err := x.d.EndCapture(x.a)
	x.ok(err)
	x.ok(x.d.LaunchGraph(g, x.a))
	x.ok(x.d.SyncStream(x.a))
	x.ok(x.d.Free(x.p))
	x.ok(x.d.LaunchGraph(g, x.a))
	code(t, x.d.SyncStream(x.a), driver.CodeIllegalAddress)
	if err := x.d.DestroyGraph(g); err == nil {
		t.Error("a device that failed does not say so")
	}
	code(t, x.d.DestroyGraph(g), driver.CodeInvalidHandle)
	if err := x.d.Close(); err == nil {
		t.Error("the device does not know")
	}
}

func TestElapsedIsExact(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, Config{Delay: func(op Op) time.Duration { return time.Duration(op.Bytes) * time.Millisecond }})
		from, err := x.d.NewTimingEvent()
		x.ok(err)
		to, err := x.d.NewTimingEvent()
		x.ok(err)
		x.ok(x.d.Record(from, x.a))
		x.ok(x.d.Memset(x.p, 1, 5, x.a, 0))
		x.ok(x.d.Memset(x.p, 1, 7, x.a, to))
		_, err = x.d.Elapsed(from, to)
		code(t, err, driver.CodeNotReady)
		x.ok(x.d.SyncStream(x.a))
		if d, err := x.d.Elapsed(from, to); d != 12*time.Millisecond || err != nil {
			t.Errorf("Elapsed: %v, %v, want 12ms", d, err)
		}
		x.ok(x.d.Memset(x.p, 1, 1, x.a, to)) // recorded again it has no time before it completes again
		_, err = x.d.Elapsed(from, to)
		code(t, err, driver.CodeNotReady)
		x.ok(x.d.Close())
	})
}
