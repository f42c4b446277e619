package cuda

// This file tests on real hardware.

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
)

// hardware returns the driver, or skips the test on a machine without a GPU, unless REQUIRE_GPU is set.
func hardware(t testing.TB) *Driver {
	t.Helper()
	drv, err := Load()
	if err == nil {
		return drv.(*Driver)
	}
	if os.Getenv("REQUIRE_GPU") != "" {
		t.Fatalf("REQUIRE_GPU is set: %v", err)
	}
	t.Skip(err)
	return nil
}

func TestConformance(t *testing.T) {
	leak.Check(t)
	drv := hardware(t)
	// The context stays for all of the suite: making one takes long and opens files.
	d, err := drv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	t.Logf("%s, %s", d.Name(), drv.lib.version())
	drivertest.Run(t, func(*testing.T) driver.Driver { return drv })
}

func TestLoadSaysWhatWasTried(t *testing.T) {
	leak.Check(t)
	_, err := Load()
	if err == nil {
		return // this machine has a GPU; the conformance suite runs
	}
	if !errors.Is(err, driver.ErrUnavailable) || !strings.HasPrefix(err.Error(), "cuda: device unavailable: ") {
		t.Errorf("Load: %v, want ErrUnavailable", err)
	}
	if _, again := Load(); again != err {
		t.Errorf("the second Load: %v, want what the first returned: %v", again, err)
	}
	if _, adopted := Adopt(1); adopted != err {
		t.Errorf("Adopt: %v, want what Load returned: %v", adopted, err)
	}
}

// active reports which primary contexts exist.
func active(t *testing.T, drv *Driver) []bool {
	t.Helper()
	n, err := drv.Devices()
	if err != nil {
		t.Fatal(err)
	}
	f := newFrame(drv.lib)
	defer f.free()
	var states []bool
	for i := range n {
		if err := f.call(&drv.lib.deviceGet, f.out(0), uintptr(i)); err != nil {
			t.Fatal(err)
		}
		dev := uintptr(int32(f.outs[0])) // before out clears it
		if err := f.call(&drv.lib.primaryCtxGetState, dev, f.out(0), f.out(1)); err != nil {
			t.Fatal(err)
		}
		states = append(states, int32(f.outs[1]) != 0)
	}
	return states
}

// heap keeps what is registered off the stack, which moves when it grows and when it is collected.
var heap any

func TestContextsEndWithTheirUse(t *testing.T) {
	leak.Check(t)
	drv := hardware(t)
	last := len(active(t, drv)) - 1
	d, err := drv.Open(last)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	heap = b
	if err := drv.Host().Register(unsafe.Pointer(&b[0]), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for i, got := range active(t, drv) {
		if want := i == last; got != want {
			t.Errorf("with memory registered while device %d was open, the context of device %d is active: %v, want %v", last, i, got, want)
		}
	}
	if err := drv.Host().Unregister(unsafe.Pointer(&b[0])); err != nil {
		t.Fatal(err)
	}
	for i, got := range active(t, drv) {
		if got {
			t.Errorf("with everything released, the context of device %d is active", i)
		}
	}
}

func BenchmarkHardwareCopy(b *testing.B) {
	drv := hardware(b)
	d, err := drv.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewStream(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.DestroyStream(s)
	e, err := d.NewEvent()
	if err != nil {
		b.Fatal(err)
	}
	defer d.DestroyEvent(e)
	for _, size := range []struct {
		name string
		n    int
	}{{"64B", 64}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}, {"16MiB", 16 << 20}} {
		p, err := d.Alloc(int64(size.n))
		if err != nil {
			b.Fatal(err)
		}
		host := make([]byte, max(size.n, 32<<10))
		at := unsafe.Pointer(&host[0])
		if err := drv.Host().Register(at, int64(len(host))); err != nil {
			b.Fatal(err)
		}
		b.Run("op=HtoD/size="+size.name, func(b *testing.B) {
			b.SetBytes(int64(size.n))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.CopyHtoD(p, at, int64(size.n), s, e); err != nil {
					b.Fatal(err)
				}
			}
			if err := d.SyncStream(s); err != nil {
				b.Fatal(err)
			}
		})
		b.Run("op=HtoD+SyncEvent/size="+size.name, func(b *testing.B) {
			b.SetBytes(int64(size.n))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.CopyHtoD(p, at, int64(size.n), s, e); err != nil {
					b.Fatal(err)
				}
				if err := d.SyncEvent(e); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := drv.Host().Unregister(at); err != nil {
			b.Fatal(err)
		}
		if err := d.Free(p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHardwareAlloc(b *testing.B) {
	drv := hardware(b)
	d, err := drv.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewStream(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.DestroyStream(s)
	for name, allocate := range map[string]func() error{
		"call=Alloc": func() error {
			p, err := d.Alloc(1 << 20)
			if err != nil {
				return err
			}
			return d.Free(p)
		},
		"call=AllocAsync": func() error {
			p, err := d.AllocAsync(1<<20, s)
			if err != nil {
				return err
			}
			return d.FreeAsync(p, s)
		},
		"call=AllocAsync+SyncStream": func() error { // the pool keeps its memory over the synchronisation
			p, err := d.AllocAsync(1<<20, s)
			if err != nil {
				return err
			}
			return errors.Join(d.FreeAsync(p, s), d.SyncStream(s))
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := allocate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
