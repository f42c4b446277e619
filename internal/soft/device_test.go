package soft

// This file tests what CUDA leaves undefined and this device finds out, and its accounts of memory.

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

func TestMisuseIsFoundOut(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{})
	d := x.d
	freed, err := d.Alloc(64)
	x.ok(err)
	x.ok(d.Free(freed))
	async, err := d.AllocAsync(64, x.a)
	x.ok(err)
	leaving, err := d.AllocAsync(64, x.a)
	x.ok(err)
	x.ok(d.FreeAsync(leaving, x.a))
	gone, err := d.NewStream(0)
	x.ok(err)
	x.ok(d.DestroyStream(gone))
	goneEvent, err := d.NewEvent()
	x.ok(err)
	x.ok(d.DestroyEvent(goneEvent))
	const all = benchBytes
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"copy past the end":            {d.CopyHtoD(x.p+1, x.at(), all, x.a, 0), driver.CodeInvalidValue},
		"copy at the end":              {d.CopyHtoD(x.p+all, x.at(), 1, x.a, 0), driver.CodeInvalidValue},
		"copy before the beginning":    {d.CopyDtoH(x.at(), x.p-1, 2, x.a, 0), driver.CodeInvalidValue},
		"copy to what was freed":       {d.CopyHtoD(freed, x.at(), 1, x.a, 0), driver.CodeInvalidValue},
		"copy to what is being freed":  {d.CopyHtoD(leaving, x.at(), 1, x.a, 0), driver.CodeInvalidValue},
		"copy of a length that wraps":  {d.CopyHtoD(x.p+1, x.at(), 1<<63-1, x.a, 0), driver.CodeInvalidValue},
		"overlapping copy":             {d.CopyDtoD(x.p, x.p+10, 11, x.a, 0), driver.CodeInvalidValue},
		"copy onto itself":             {d.CopyDtoD(x.p, x.p, 1, x.a, 0), driver.CodeInvalidValue},
		"freed twice":                  {d.Free(freed), driver.CodeInvalidValue},
		"interior address freed":       {d.Free(x.p + 256), driver.CodeInvalidValue},
		"freed twice in stream order":  {d.FreeAsync(leaving, x.a), driver.CodeInvalidValue},
		"FreeAsync of Alloc's memory":  {d.FreeAsync(x.p, x.a), driver.CodeInvalidValue},
		"FreeAsync, destroyed stream":  {d.FreeAsync(async, gone), driver.CodeInvalidHandle},
		"AllocAsync, destroyed stream": {second(d.AllocAsync(1, gone)), driver.CodeInvalidHandle},
		"copy on a destroyed stream":   {d.Memset(x.p, 0, 1, gone, 0), driver.CodeInvalidHandle},
		"destroyed event recorded":     {d.Memset(x.p, 0, 1, x.a, goneEvent), driver.CodeInvalidHandle},
		"stream destroyed twice":       {d.DestroyStream(gone), driver.CodeInvalidHandle},
		"event destroyed twice":        {d.DestroyEvent(goneEvent), driver.CodeInvalidHandle},
		"event taken for a stream":     {d.SyncStream(driver.Stream(x.e)), driver.CodeInvalidHandle},
		"stream taken for an event":    {d.SyncEvent(driver.Event(x.a)), driver.CodeInvalidHandle},
	} {
		t.Run(name, func(t *testing.T) { code(t, c.err, c.code) })
	}
	x.ok(d.CopyDtoD(x.p, x.p+10, 10, x.a, x.e)) // side by side
	x.ok(d.SyncEvent(x.e))
	x.ok(d.Close())
}

func second(_ driver.DevicePtr, err error) error { return err }

func TestPoolHoldsMemory(t *testing.T) {
	leak.Check(t)
	const total = 1 << 20
	drv := New(Config{Memory: total})
	d, err := drv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	free := func(want int64) {
		t.Helper()
		if got, all, err := d.MemInfo(); err != nil || got != want || all != total {
			t.Errorf("MemInfo: %d of %d, %v; want %d of %d", got, all, err, want, total)
		}
	}
	s, err := d.NewStream(0)
	ok(err)
	p, err := d.AllocAsync(total, s)
	ok(err)
	free(0)
	ok(d.FreeAsync(p, s))
	ok(d.SyncStream(s))
	free(0) // the pool has it
	if _, err := d.Alloc(1); !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(), "1048576 are in the pool") {
		t.Errorf("Alloc with all memory in the pool: %v, want ErrOutOfMemory that says so", err)
	}
	p, err = d.AllocAsync(total/2, s) // from the pool
	ok(err)
	free(0)
	ok(d.TrimPool(total / 4))
	free(total / 4)
	ok(d.TrimPool(0))
	free(total / 2)
	q, err := d.Alloc(total / 2)
	ok(err)
	ok(d.Free(p)) // memory of AllocAsync, not through the pool
	ok(d.Free(q))
	free(total)
	ok(d.Close())
}

func TestConfigErrors(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Devices: -2}, "soft: Config.Devices is -2, must not be negative"},
		{Config{Memory: -3}, "soft: Config.Memory is -3, must not be negative"},
	} {
		_, err := New(c.config).Open(0)
		if err == nil || err.Error() != c.want {
			t.Errorf("Open: %v, want %s", err, c.want)
		}
	}
	if n, err := New(Config{Devices: 3}).Devices(); n != 3 || err != nil {
		t.Errorf("Devices() = %d, %v; want 3", n, err)
	}
}

func TestDevicesAreApart(t *testing.T) {
	leak.Check(t)
	drv := New(Config{Devices: 2, Memory: 100})
	a, err := drv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := drv.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := a.Alloc(100); err != nil {
		t.Error(err)
	}
	if free, _, err := b.MemInfo(); free != 100 || err != nil {
		t.Errorf("the other device has %d bytes free, %v; want 100", free, err)
	}
	if a.Name() == b.Name() {
		t.Errorf("both are named %q", a.Name())
	}
}

// TestReopenedDeviceIsNew: a device that failed is well after the last Close, as a CUDA device is in a new
// process.
func TestReopenedDeviceIsNew(t *testing.T) {
	leak.Check(t)
	fail := true
	drv := New(Config{Fail: func(Op) error {
		if fail {
			return errors.New("broken")
		}
		return nil
	}})
	for _, want := range []bool{true, false} {
		fail = want
		d, err := drv.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := d.NewStream(0)
		p, _ := d.Alloc(16)
		if err := d.Memset(p, 1, 16, s, 0); err != nil {
			t.Fatal(err)
		}
		if err := d.SyncStream(s); (err != nil) != want {
			t.Errorf("SyncStream: %v, want an error: %v", err, want)
		}
		if err := d.Close(); (err != nil) != want {
			t.Errorf("Close: %v, want an error: %v", err, want)
		}
	}
}

func BenchmarkCopyHtoD(b *testing.B) {
	d, err := New(Config{}).Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s, _ := d.NewStream(0)
	e, _ := d.NewEvent()
	for _, size := range []struct {
		name string
		n    int64
	}{{"64B", 64}, {"1MiB", 1 << 20}} {
		b.Run("size="+size.name, func(b *testing.B) {
			p, err := d.Alloc(size.n)
			if err != nil {
				b.Fatal(err)
			}
			src := make([]byte, size.n)
			b.SetBytes(size.n)
			b.ReportAllocs()
			for b.Loop() {
				if err := d.CopyHtoD(p, hostPointer(src), size.n, s, e); err != nil {
					b.Fatal(err)
				}
				if err := d.SyncEvent(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
