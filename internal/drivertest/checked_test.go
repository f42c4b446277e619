package drivertest

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
)

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()                           {}
func (r *recorder) Cleanup(f func())                  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any)                 { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func (r *recorder) end() []string {
	for _, f := range r.cleanups {
		f()
	}
	return r.errors
}

// unlocked is a host that only pretends.
type unlocked struct{}

func (unlocked) Name() string                         { return "none" }
func (unlocked) Register(unsafe.Pointer, int64) error { return nil }
func (unlocked) Unregister(unsafe.Pointer) error      { return nil }

func TestCheckedFindsMisuse(t *testing.T) {
	buf := make([]byte, 4096)
	at := func(i int) unsafe.Pointer { return unsafe.Pointer(&buf[i]) }
	device := func(misuse func(d driver.Device)) func(driver.Driver) {
		return func(drv driver.Driver) {
			d, err := drv.Open(0)
			if err != nil {
				panic(err)
			}
			defer d.Close()
			misuse(d)
		}
	}
	cases := map[string]struct {
		misuse func(driver.Driver)
		want   []string // one for each complaint
	}{
		"nothing": {misuse: device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			e, _ := d.NewEvent()
			p, _ := d.AllocAsync(100, s)
			q, _ := d.Alloc(100)
			_ = d.CopyHtoD(p+50, at(0), 50, s, e)
			_ = d.CopyDtoD(q, p, 100, s, 0)
			_ = d.CopyHtoD(0, nil, 0, s, e)
			_ = d.WaitEvent(s, e)
			_ = d.Free(q)
			_ = d.FreeAsync(p, s)
			_ = d.DestroyStream(s)
			_ = d.DestroyEvent(e)
		})},
		"device left open": {func(drv driver.Driver) {
			d, _ := drv.Open(0)
			_ = d
		}, []string{"device 0 was not released"}},
		"second user left open": {func(drv driver.Driver) {
			_, _ = drv.Open(0)
			d, _ := drv.Open(0)
			_ = d.Close()
			_ = d.Close()
		}, []string{"device 0 was not released"}},
		"stream left": {device(func(d driver.Device) { _, _ = d.NewStream(0) }), []string{
			"still has 1 ", "stream "}},
		"event left":  {device(func(d driver.Device) { _, _ = d.NewEvent() }), []string{"still has 1 ", "event "}},
		"memory left": {device(func(d driver.Device) { _, _ = d.Alloc(64) }), []string{"still has 1 ", "device memory of 64 bytes"}},
		"double free": {device(func(d driver.Device) {
			p, _ := d.Alloc(64)
			_ = d.Free(p)
			_ = d.Free(p)
		}), []string{"Free: no memory allocated at"}},
		"freed in two ways": {device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			p, _ := d.AllocAsync(64, s)
			_ = d.FreeAsync(p, s)
			_ = d.Free(p)
			_ = d.DestroyStream(s)
		}), []string{"Free: no memory allocated at"}},
		"interior free": {device(func(d driver.Device) {
			p, _ := d.Alloc(64)
			_ = d.Free(p + 1)
			_ = d.Free(p)
		}), []string{"Free: no memory allocated at"}},
		"copy past the end": {device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			p, _ := d.Alloc(64)
			_ = d.CopyDtoH(at(0), p+1, 64, s, 0)
			_ = d.Free(p)
			_ = d.DestroyStream(s)
		}), []string{"CopyDtoH: src: no memory of 64 bytes"}},
		"destroyed stream": {device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			e, _ := d.NewEvent()
			_ = d.DestroyStream(s)
			_ = d.Record(e, s)
			_ = d.WaitEvent(s, e)
			_ = d.SyncStream(s)
			_ = d.DestroyStream(s)
			_ = d.DestroyEvent(e)
		}), []string{"Record: no stream", "WaitEvent: no stream", "SyncStream: no stream", "DestroyStream: no stream"}},
		"destroyed event": {device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			e, _ := d.NewEvent()
			_ = d.DestroyEvent(e)
			_, _ = d.Query(e)
			_ = d.SyncEvent(e)
			_ = d.CopyHtoD(0, nil, 0, s, e)
			_ = d.DestroyEvent(e)
			_ = d.DestroyStream(s)
		}), []string{"Query: no event", "SyncEvent: no event", "CopyHtoD: no event", "DestroyEvent: no event"}},
		"kernels and graphs": {misuse: device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			e, _ := d.NewTimingEvent()
			m, _ := d.LoadModule(Image)
			f, _ := d.Function(m, "spin")
			_ = d.BeginCapture(s)
			_ = d.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, []uint64{0})
			g, _ := d.EndCapture(s)
			_ = d.LaunchGraph(g, s)
			_ = d.Record(e, s)
			_ = d.SyncStream(s)
			_, _ = d.Elapsed(e, e)
			_ = d.DestroyGraph(g)
			_ = d.UnloadModule(m)
			_ = d.DestroyEvent(e)
			_ = d.DestroyStream(s)
		})},
		"module left":       {device(func(d driver.Device) { _, _ = d.LoadModule(Image) }), []string{"still has 1 ", "module "}},
		"timing event left": {device(func(d driver.Device) { _, _ = d.NewTimingEvent() }), []string{"still has 1 ", "timing event "}},
		"graph left": {device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			_ = d.BeginCapture(s)
			_, _ = d.EndCapture(s)
			_ = d.DestroyStream(s)
		}), []string{"still has 1 ", "graph "}},
		"unloaded module": {device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			m, _ := d.LoadModule(Image)
			f, _ := d.Function(m, "spin")
			_ = d.UnloadModule(m)
			_ = d.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, []uint64{0})
			_, _ = d.Function(m, "spin")
			_ = d.UnloadModule(m)
			_ = d.DestroyStream(s)
		}), []string{"Launch: no function", "Function: no module", "UnloadModule: no module"}},
		"destroyed graph": {device(func(d driver.Device) {
			s, _ := d.NewStream(0)
			_ = d.BeginCapture(s)
			g, _ := d.EndCapture(s)
			_ = d.DestroyGraph(g)
			_ = d.LaunchGraph(g, s)
			_ = d.DestroyGraph(g)
			_ = d.DestroyStream(s)
			_ = d.BeginCapture(s)
		}), []string{"LaunchGraph: no graph", "DestroyGraph: no graph", "BeginCapture: no stream"}},
		"registration left": {func(drv driver.Driver) {
			_ = drv.Host().Register(at(0), 100)
		}, []string{"registration of 100 bytes"}},
		"registered over another": {func(drv driver.Driver) {
			_ = drv.Host().Register(at(0), 100)
			_ = drv.Host().Register(at(99), 100)
			_ = drv.Host().Unregister(at(0))
		}, []string{"overlaps what was registered"}},
		"unregistered twice": {func(drv driver.Driver) {
			_ = drv.Host().Register(at(0), 100)
			_ = drv.Host().Unregister(at(0))
			_ = drv.Host().Unregister(at(0))
		}, []string{"not registered"}},
		"registered side by side, twice": {misuse: func(drv driver.Driver) {
			for range 2 {
				_ = drv.Host().Register(at(0), 100)
				_ = drv.Host().Register(at(100), 100)
				_ = drv.Host().Unregister(at(100))
				_ = drv.Host().Unregister(at(0))
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			r := &recorder{TB: t}
			c.misuse(Checked(r, soft.New(soft.Config{Host: unlocked{}})))
			got := r.end()
			if len(got) != len(c.want) {
				t.Fatalf("%d complaints, want %d: %s", len(got), len(c.want), got)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("complaint %d is %q, want it to contain %q", i, got[i], want)
				}
				if !strings.Contains(got[i], "checked_test.go") || strings.Contains(got[i], "checked_device.go") {
					t.Errorf("complaint %d does not name the caller: %q", i, got[i])
				}
			}
		})
	}
}

func TestCheckedKeepsDevicesApart(t *testing.T) {
	leak.Check(t)
	r := &recorder{TB: t}
	drv := Checked(r, soft.New(soft.Config{Devices: 2}))
	for i := range 2 {
		d, err := drv.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		p, err := d.Alloc(64) // the same address on both
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			defer d.Free(p)
		} else if err := d.Free(p); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.end(); len(got) != 3 {
		t.Errorf("while two devices are open and one holds memory, 3 things are held, not %d: %s", len(got), got)
	}
}

// heap keeps what is registered off the stack, which moves when it grows and when it is collected.
var heap any

func TestCheckedHostCountsAnAttemptedRelease(t *testing.T) {
	leak.Check(t)
	r := &recorder{TB: t}
	faulty := NewFaultyHost(unlocked{})
	h := CheckedHost(r, faulty)
	b := new([8]byte)
	heap = b
	if err := h.Register(unsafe.Pointer(b), 8); err != nil {
		t.Fatal(err)
	}
	faulty.FailAll("Unregister")
	if err := h.Unregister(unsafe.Pointer(b)); err != ErrInjected {
		t.Fatalf("Unregister: %v, want ErrInjected", err)
	}
	faulty.FailAll("Register")
	if err := h.Register(unsafe.Pointer(b), 8); err != ErrInjected {
		t.Fatalf("Register: %v, want ErrInjected", err)
	}
	if got := r.end(); len(got) != 0 {
		t.Errorf("complaints: %s", got)
	}
	if h.Name() != "none" {
		t.Errorf("Name() = %q", h.Name())
	}
}
