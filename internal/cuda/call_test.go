//go:build linux && (amd64 || arm64)

package cuda

// This file tests the calls on a fake library: what reaches it, and what becomes of its failures.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

func openFake(t testing.TB, l *fakeLibrary, ordinal int) (*Driver, *Device) {
	t.Helper()
	drv, err := load(l.lookup)
	if err != nil {
		t.Fatal(err)
	}
	d, err := drv.Open(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	return drv, d.(*Device)
}

func TestEverySymbolHasASignature(t *testing.T) {
	leak.Check(t)
	for _, e := range new(library).entries() {
		if _, ok := signatures[e.name]; !ok {
			t.Errorf("the fake library lacks %s", e.name)
		}
	}
}

// TestArguments compares what reaches the library with cuda.h.
func TestArguments(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	drv, d := openFake(t, l, 1)
	opening := strings.Join(l.took(), "\n")
	for _, want := range []string{"cuInit[0]", "cuDevicePrimaryCtxRetain[", "cuMemPoolCreate[", "cuMemPoolSetAttribute[" + fmt.Sprintf("%x", d.pool) + " 4 "} {
		if !strings.Contains(opening, want) {
			t.Errorf("opening made the calls\n%s\nwant %s among them", opening, want)
		}
	}
	var b [8]byte
	host := unsafe.Pointer(&b)
	s, err := d.NewStream(-1)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := d.NewEvent()
	p, _ := d.Alloc(100)
	q, _ := d.AllocAsync(200, s)
	// Results that the library writes are at addresses of frames: only what follows them is compared.
	for i, want := range []string{" 1 ffffffffffffffff]", " 2]", " 64]", fmt.Sprintf(" c8 %x %x]", d.pool, s)} {
		if calls := l.calls; !strings.HasSuffix(calls[i], want) {
			t.Errorf("%s, want it to end in %s", calls[i], want)
		}
	}
	l.took()
	for _, c := range []struct {
		call func() error
		want []string
	}{
		{func() error { return d.CopyHtoD(p, host, 8, s, e) }, []string{
			fmt.Sprintf("cuMemcpyHtoDAsync_v2[%x %x 8 %x]", p, host, s), fmt.Sprintf("cuEventRecord[%x %x]", e, s)}},
		{func() error { return d.CopyDtoH(host, p, 7, s, 0) }, []string{fmt.Sprintf("cuMemcpyDtoHAsync_v2[%x %x 7 %x]", host, p, s)}},
		{func() error { return d.CopyDtoD(p, q, 5, s, e) }, []string{
			fmt.Sprintf("cuMemcpyDtoDAsync_v2[%x %x 5 %x]", p, q, s), fmt.Sprintf("cuEventRecord[%x %x]", e, s)}},
		{func() error { return d.CopyPeer(p, q, fakeContext, 9, s, e) }, []string{
			fmt.Sprintf("cuMemcpyPeerAsync[%x c001 %x c000 9 %x]", p, q, s), fmt.Sprintf("cuEventRecord[%x %x]", e, s)}},
		{func() error { return d.CopyPeer(0, 0, fakeContext, 0, s, 0) }, nil},
		{func() error { return d.Memset(p, 0xAB, 6, s, 0) }, []string{fmt.Sprintf("cuMemsetD8Async[%x ab 6 %x]", p, s)}},
		{func() error { return d.CopyHtoD(0, nil, 0, s, e) }, []string{fmt.Sprintf("cuEventRecord[%x %x]", e, s)}},
		{func() error { return d.CopyDtoH(nil, 0, 0, s, 0) }, nil},
		{func() error { return d.Record(e, s) }, []string{fmt.Sprintf("cuEventRecord[%x %x]", e, s)}},
		{func() error { return d.WaitEvent(s, e) }, []string{fmt.Sprintf("cuStreamWaitEvent[%x %x 0]", s, e)}},
		{func() error { return d.SyncEvent(e) }, []string{fmt.Sprintf("cuEventQuery[%x]", e)}},
		{func() error { return d.SyncStream(s) }, []string{
			fmt.Sprintf("cuStreamQuery[%x]", s), fmt.Sprintf("cuStreamSynchronize[%x]", s)}},
		{func() error { return d.TrimPool(77) }, []string{fmt.Sprintf("cuMemPoolTrimTo[%x 4d]", d.pool)}},
		{func() error { return d.FreeAsync(q, s) }, []string{fmt.Sprintf("cuMemFreeAsync[%x %x]", q, s)}},
		{func() error { return d.Free(p) }, []string{fmt.Sprintf("cuMemFree_v2[%x]", p)}},
		{func() error { return d.DestroyEvent(e) }, []string{fmt.Sprintf("cuEventDestroy_v2[%x]", e)}},
		{func() error { return d.DestroyStream(s) }, []string{fmt.Sprintf("cuStreamDestroy_v2[%x]", s)}},
		{func() error { return d.Close() }, []string{fmt.Sprintf("cuMemPoolDestroy[%x]", d.pool), "cuDevicePrimaryCtxRelease_v2[1]"}},
	} {
		if err := c.call(); err != nil {
			t.Error(err)
		}
		if got := l.took(); !slices.Equal(got, c.want) {
			t.Errorf("made the calls %s, want %s", got, c.want)
		}
	}
	if free, total, err := d.MemInfo(); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("MemInfo after Close: %d, %d, %v", free, total, err)
	}
	if d.Name() != "Fake" {
		t.Errorf("Name() = %q, want what is before the first NUL", d.Name())
	}
	if drv.Host().Name() != "cuda" {
		t.Errorf("Host().Name() = %q", drv.Host().Name())
	}
}

// useAll calls everything, and goes on where there are errors, which it returns.
func useAll(l *fakeLibrary) (failed []error) {
	note := func(err error) bool {
		if err != nil {
			failed = append(failed, err)
		}
		return err == nil
	}
	drv, err := load(l.lookup)
	if !note(err) {
		return failed
	}
	var b [64]byte
	host := unsafe.Pointer(&b)
	_, err = drv.Host().(driver.Located).PCIBusID()
	note(err)
	if note(drv.Host().Register(host, 64)) {
		note(drv.Host().Unregister(host))
	}
	if d, err := drv.adopt(fakeContext + 1); note(err) {
		note(d.Close())
	}
	d, err := drv.Open(0)
	if !note(err) {
		return failed
	}
	note(d.Within(func() error { return nil }))
	_, _, err = d.MemInfo()
	note(err)
	if s, err := d.NewStream(0); note(err) {
		if e, err := d.NewEvent(); note(err) {
			note(d.Record(e, s))
			note(d.WaitEvent(s, e))
			note(d.CopyHtoD(1, host, 1, s, e))
			note(d.CopyDtoH(host, 1, 1, s, e))
			note(d.CopyDtoD(1, 2, 1, s, e))
			note(d.Memset(1, 2, 3, s, e))
			_, err = d.Share(fakeContext + 1)
			note(err)
			note(d.CopyPeer(1, 2, fakeContext+1, 1, s, e))
			_, err = d.Query(e)
			note(err)
			note(d.SyncEvent(e))
			note(d.SyncStream(s))
			note(d.DestroyEvent(e))
		}
		if p, err := d.AllocAsync(8, s); note(err) {
			note(d.FreeAsync(p, s))
		}
		note(d.TrimPool(0))
		note(d.DestroyStream(s))
	}
	if p, err := d.Alloc(8); note(err) {
		note(d.Free(p))
	}
	useKernels(d, note)
	note(d.Close())
	return failed
}

func TestEveryCallCanFail(t *testing.T) {
	t.Run("release=11.4", func(t *testing.T) { everyCallCanFail(t, 11040) })
	t.Run("release=13.0", func(t *testing.T) { everyCallCanFail(t, 13000) })
}

func everyCallCanFail(t *testing.T, release int32) {
	for _, e := range new(library).entries() {
		t.Run(e.name, func(t *testing.T) {
			leak.Check(t)
			l := newFake(t)
			l.release = release
			if failed := useAll(l); failed != nil {
				t.Fatalf("without a failure: %v", failed)
			}
			switch e.name {
			case "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString":
				l.fail["cuInit"] = fakeError // that is when they are called
			case "cuStreamSynchronize":
				l.fail["cuEventRecord"] = fakeError
			}
			l.fail[e.name] = fakeError
			failed := useAll(l)
			call, found := strings.TrimSuffix(e.name, "_v2"), false
			for _, err := range failed {
				found = found || mentions(err, call)
			}
			if e.name == "cuGetErrorName" || e.name == "cuGetErrorString" {
				var de *driver.Error
				found = len(failed) == 1 && errors.As(failed[0], &de) && de.Name != "" && de.Text != ""
			}
			if e.name == "cuDriverGetVersion" {
				found = len(failed) == 1 && strings.Contains(failed[0].Error(), "unknown version (cuDriverGetVersion: String of 999 (999))")
			}
			if !found {
				t.Errorf("no error of %s with code %d among %v", call, fakeError, failed)
			}
			l.forgive(e.name)
		})
	}
}

func TestFailedCallsMakeNothing(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	s, err := d.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	for name, makes := range map[string]func() (uintptr, error){
		"cuMemAlloc_v2":              func() (uintptr, error) { p, err := d.Alloc(8); return uintptr(p), err },
		"cuMemAllocFromPoolAsync":    func() (uintptr, error) { p, err := d.AllocAsync(8, s); return uintptr(p), err },
		"cuStreamCreateWithPriority": func() (uintptr, error) { s, err := d.NewStream(0); return uintptr(s), err },
		"cuEventCreate":              func() (uintptr, error) { e, err := d.NewEvent(); return uintptr(e), err },
	} {
		l.fail[name] = 2
		if made, err := makes(); made != 0 || !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("%s: %#x, %v; want 0 and ErrOutOfMemory", name, made, err)
		}
		delete(l.fail, name)
	}
	if err := errors.Join(d.DestroyStream(s), d.Close()); err != nil {
		t.Error(err)
	}
}

// mentions reports whether err is or joins a *driver.Error of the call, complete.
func mentions(err error, call string) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return mentions(err, call) })
	}
	var e *driver.Error
	return errors.As(err, &e) && *e == driver.Error{Call: call, Code: fakeError, Name: "Name of 999", Text: "String of 999"}
}

// forgive drops what can't be released because the releasing call itself was made to fail.
func (l *fakeLibrary) forgive(name string) {
	switch name {
	case "cuDevicePrimaryCtxRelease_v2", "cuMemHostUnregister": // a registration retains a context
		l.active = [2]int{}
	case "cuCtxPopCurrent_v2":
		clear(l.current)
		// Calls that succeeded but could not put the context back gave no result to release.
		clear(l.held)
	}
	kind := signatures[name].ends
	for handle, held := range l.held {
		if held == kind {
			delete(l.held, handle)
		}
	}
}

func TestFailureAndFailedPop(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	l.fail["cuMemFree_v2"], l.fail["cuCtxPopCurrent_v2"] = fakeError, fakeError
	err := d.Free(1)
	if !mentions(err, "cuMemFree") || !mentions(err, "cuCtxPopCurrent") {
		t.Errorf("Free: %v, want both failures", err)
	}
	clear(l.fail)
	clear(l.current)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhereTheDeviceIs(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	drv, err := load(l.lookup)
	if err != nil {
		t.Fatal(err)
	}
	d, err := drv.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	host := drv.Host().(driver.Located)
	if id, err := host.PCIBusID(); id != "0000:3b:01.0" || err != nil {
		t.Errorf("%q, %v; want device 1's, as sysfs writes it", id, err)
	}
	l.fail["cuDeviceGetPCIBusId"] = fakeError
	if _, err := host.PCIBusID(); !mentions(err, "cuDeviceGetPCIBusId") {
		t.Errorf("%v, want the injected failure", err)
	}
	clear(l.fail)
	drv.lib.deviceGetPCIBusID.addr = 0
	if _, err := host.PCIBusID(); !errors.Is(err, driver.ErrNotSupported) {
		t.Errorf("%v, want ErrNotSupported", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnregisterCanBeRepeated(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	drv, err := load(l.lookup)
	if err != nil {
		t.Fatal(err)
	}
	b := new([64]byte)
	heap = b
	if err := drv.Host().Register(unsafe.Pointer(b), 64); err != nil {
		t.Fatal(err)
	}
	l.fail["cuMemHostUnregister"] = fakeError
	if err := drv.Host().Unregister(unsafe.Pointer(b)); !mentions(err, "cuMemHostUnregister") {
		t.Fatalf("Unregister: %v, want the injected failure", err)
	}
	clear(l.fail)
	if err := drv.Host().Unregister(unsafe.Pointer(b)); err != nil {
		t.Errorf("Unregister again: %v", err)
	}
}

// TestFailedRecordLeavesNoWork: the caller got an error and so has no event to wait for.
func TestFailedRecordLeavesNoWork(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	l.fail["cuEventRecord"] = fakeError
	l.took()
	err := d.Memset(1, 2, 3, 4, 5)
	if !mentions(err, "cuEventRecord") {
		t.Errorf("Memset: %v, want cuEventRecord's failure", err)
	}
	if calls := l.took(); len(calls) != 3 || calls[2] != "cuStreamSynchronize[4]" {
		t.Errorf("made the calls %s, want cuStreamSynchronize at the end", calls)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestLongWaitsNap: who waits for long asks now and then. A machine that is busy makes it less often, not more.
func TestLongWaitsNap(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	e, err := d.NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	l.pending["cuEventQuery"] = 1
	if done, err := d.Query(e); done || err != nil {
		t.Errorf("Query: %v, %v, want false", done, err)
	}
	for query, wait := range map[string]func() error{
		"cuEventQuery": func() error { return d.SyncEvent(e) }, "cuStreamQuery": func() error { return d.SyncStream(9) },
	} {
		const long = 5 * patience
		l.pending[query] = 1 << 30
		var asked int
		start := time.Now()
		l.before = func(name string) {
			if waited := time.Since(start); waited > long {
				l.pending[query] = 0
			} else if waited > patience+patience/16 {
				asked++
			}
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited <= long {
			t.Errorf("%s says done after %v, it returned after %v", query, long, waited)
		}
		if most := int(long / (patience / 64)); asked > most {
			t.Errorf("asked %s %d times in the %v after %v, want at most %d", query, asked, long-patience, patience, most)
		}
		l.before = nil
	}
	if err := d.DestroyEvent(e); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestOldDrivers(t *testing.T) {
	leak.Check(t)
	t.Run("without pools", func(t *testing.T) {
		l := newFake(t)
		l.missing = []string{"cuMemPoolCreate", "cuMemAllocFromPoolAsync"}
		_, d := openFake(t, l, 0)
		if _, err := d.AllocAsync(8, 1); !errors.Is(err, driver.ErrNotSupported) || !strings.HasPrefix(err.Error(), "cuMemAllocFromPoolAsync: ") {
			t.Errorf("AllocAsync: %v, want ErrNotSupported and the call's name", err)
		}
		if err := d.FreeAsync(8, 1); !errors.Is(err, driver.ErrNotSupported) {
			t.Errorf("FreeAsync: %v, want ErrNotSupported", err)
		}
		if err := d.TrimPool(0); err != nil {
			t.Errorf("TrimPool: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("too old", func(t *testing.T) {
		l := newFake(t)
		l.missing = []string{"cuDevicePrimaryCtxRelease_v2"}
		_, err := load(l.lookup)
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("load: %v, want ErrUnavailable", err)
		}
		for _, want := range []string{"CUDA 11.4", "lacks cuDevicePrimaryCtxRelease_v2", "CUDA 11.0 or newer"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("load: %v, want %q in it", err, want)
			}
		}
	})
	t.Run("no device", func(t *testing.T) {
		l := newFake(t)
		l.fail["cuInit"] = 100
		_, err := load(l.lookup)
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "cuInit: String of 100 (100)") {
			t.Errorf("load: %v, want ErrUnavailable and what cuInit returned", err)
		}
	})
}

// silent is a library whose functions do nothing and succeed, for measuring the way to them.
func silent(t testing.TB) *Device {
	t.Helper()
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	// It returns 0 unless its first two arguments are equal.
	equal, err := purego.Dlsym(libc, "pthread_equal")
	if err != nil {
		t.Fatal(err)
	}
	lib, err := bind(func(string) (uintptr, error) { return equal, nil })
	if err != nil {
		t.Fatal(err)
	}
	return &Device{lib: lib, ctx: 1, idle: make(chan struct{})}
}

// poolDrops is set under the race detector.
var poolDrops bool

func TestCopyDoesNotAllocate(t *testing.T) {
	leak.Check(t)
	if poolDrops {
		t.Skip("the race detector makes sync.Pool allocate")
	}
	d := silent(t)
	var b [64]byte
	if n := testing.AllocsPerRun(1000, func() {
		if err := d.CopyHtoD(1, unsafe.Pointer(&b), 64, 2, 3); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("CopyHtoD allocates %v times", n)
	}
}

func BenchmarkCopyHtoD(b *testing.B) {
	d := silent(b)
	buf := make([]byte, 64)
	b.Run("library=silent", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := d.CopyHtoD(1, unsafe.Pointer(&buf[0]), 64, 2, 3); err != nil {
				b.Fatal(err)
			}
		}
	})
}
