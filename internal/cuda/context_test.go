//go:build linux && (amd64 || arm64)

package cuda

// This file tests which context is current for calls, and that Close waits for them.

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	"golang.org/x/sys/unix"
)

// TestContextByHandle: newer libraries are spared two calls and a locked thread for each copy.
func TestContextByHandle(t *testing.T) {
	leak.Check(t)
	for _, c := range []struct {
		release int32
		pushes  int
	}{{12090, 2}, {13000, 0}} {
		t.Run(fmt.Sprint("release=", c.release), func(t *testing.T) {
			l := newFake(t)
			l.release = c.release
			pushes := 0
			l.before = func(name string) {
				if name == "cuCtxPushCurrent_v2" {
					pushes++
				}
			}
			_, d := openFake(t, l, 0)
			s, err := d.NewStream(0)
			if err != nil {
				t.Fatal(err)
			}
			e, err := d.NewEvent()
			if err != nil {
				t.Fatal(err)
			}
			pushes = 0
			b := new([8]byte)
			if err := errors.Join(d.CopyHtoD(1, unsafe.Pointer(b), 8, s, e), d.SyncEvent(e)); err != nil {
				t.Error(err)
			}
			if pushes != c.pushes {
				t.Errorf("a copy and a wait pushed a context %d times, want %d", pushes, c.pushes)
			}
			if err := errors.Join(d.DestroyEvent(e), d.DestroyStream(s), d.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhateverIsCurrent has other code leave any context, or none, on the thread: every call works, acts on its own
// context, and leaves what it found.
func TestWhateverIsCurrent(t *testing.T) {
	const foreign = 0xBAD
	for _, release := range []int32{11040, 12090, 13000} {
		for name, current := range map[string][]uintptr{
			"none":                {},
			"another":             {foreign},
			"destroyed":           {fakeDead},
			"destroyed, above it": {foreign, fakeDead},
		} {
			t.Run(fmt.Sprintf("release=%d/current=%s", release, name), func(t *testing.T) {
				leak.Check(t)
				l := newFake(t)
				l.release = release
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				thread := unix.Gettid()
				l.mu.Lock()
				l.current[thread] = slices.Clone(current)
				l.dead = fakeDead
				l.mu.Unlock()
				if failed := useAll(l); failed != nil {
					t.Error(errors.Join(failed...))
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				if got := l.current[thread]; !slices.Equal(got, current) {
					t.Errorf("the contexts %#x are current, want what was before: %#x", got, current)
				}
				if len(l.strayed) > 0 {
					t.Errorf("calls on another's context: %s", l.strayed)
				}
				delete(l.current, thread)
			})
		}
	}
}

// TestOwnContextDestroyed: when it is the Device's own context that other code has destroyed, calls say so.
func TestOwnContextDestroyed(t *testing.T) {
	for _, release := range []int32{12090, 13000} {
		t.Run(fmt.Sprint("release=", release), func(t *testing.T) {
			leak.Check(t)
			l := newFake(t)
			l.release = release
			drv, err := load(l.lookup)
			if err != nil {
				t.Fatal(err)
			}
			d, err := drv.adopt(fakeAdopted)
			if err != nil {
				t.Fatal(err)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			l.mu.Lock()
			l.dead = fakeAdopted
			l.current[unix.Gettid()] = []uintptr{fakeAdopted}
			l.mu.Unlock()
			var failed *driver.Error
			if err := d.Record(1, 2); !errors.As(err, &failed) || failed.Code != contextIsDestroyed {
				t.Errorf("Record: %v, want code %d", err, contextIsDestroyed)
			}
			if _, err := d.NewEvent(); !errors.As(err, &failed) || failed.Code != contextIsDestroyed {
				t.Errorf("NewEvent: %v, want code %d", err, contextIsDestroyed)
			}
			l.mu.Lock()
			if got := l.current[unix.Gettid()]; !slices.Equal(got, []uintptr{fakeAdopted}) {
				t.Errorf("the contexts %#x are current, want what was", got)
			}
			clear(l.current)
			l.mu.Unlock()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCloseWaitsForCalls(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 0)
	inCall, goOn := make(chan struct{}), make(chan struct{})
	var released atomic.Bool
	l.before = func(name string) {
		switch name {
		case "cuMemGetInfo_v2":
			close(inCall)
			<-goOn
			time.Sleep(10 * time.Millisecond)
			if released.Load() {
				t.Error("the context was released during a call")
			}
		case "cuDevicePrimaryCtxRelease_v2":
			released.Store(true)
		}
	}
	call, closed := make(chan error), make(chan error)
	go func() { _, _, err := d.MemInfo(); call <- err }()
	<-inCall
	go func() { closed <- d.Close() }()
	for d.state.Load()&closing == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := d.Alloc(1); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Alloc while closing: %v, want ErrClosed", err)
	}
	close(goOn)
	if err := <-call; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestWithin(t *testing.T) {
	leak.Check(t)
	l := newFake(t)
	_, d := openFake(t, l, 1)
	defer d.Close()
	current := func() []uintptr {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Clone(l.current[unix.Gettid()])
	}
	failed := errors.New("failed")
	err := d.Within(func() error {
		if got := current(); len(got) != 1 || got[0] != fakeContext+1 {
			t.Errorf("the contexts %#x are current, want device 1's", got)
		}
		return failed
	})
	if err != failed {
		t.Errorf("Within: %v, want the call's error", err)
	}
	func() {
		defer func() {
			if p := recover(); p != "panic" {
				t.Errorf("recovered %v", p)
			}
		}()
		d.Within(func() error { panic("panic") })
	}()
	if got := current(); len(got) != 0 {
		t.Errorf("the contexts %#x are still current", got)
	}
	l.fail["cuCtxPushCurrent_v2"] = fakeError
	if err := d.Within(func() error { t.Error("called without a context"); return nil }); err == nil {
		t.Error("Within without a context returns nil")
	}
	delete(l.fail, "cuCtxPushCurrent_v2")
}

func TestHostUsesAContextThatIsThere(t *testing.T) {
	leak.Check(t)
	var b [64]byte
	p := unsafe.Pointer(&b)
	register := func(drv *Driver, l *fakeLibrary, want uintptr) {
		t.Helper()
		if err := drv.Host().Register(p, 64); err != nil {
			t.Fatal(err)
		}
		if got := l.in[uintptr(p)]; got != want {
			t.Errorf("registered in context %#x, want %#x", got, want)
		}
	}
	t.Run("opened", func(t *testing.T) {
		l := newFake(t)
		drv, d := openFake(t, l, 1)
		register(drv, l, fakeContext+1)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if l.active != [2]int{0, 1} {
			t.Errorf("retained with memory registered: %v, want only device 1's", l.active)
		}
		if err := drv.Host().Unregister(p); err != nil {
			t.Error(err)
		}
	})
	t.Run("adopted", func(t *testing.T) {
		l := newFake(t)
		drv, err := load(l.lookup)
		if err != nil {
			t.Fatal(err)
		}
		d, err := drv.adopt(fakeAdopted) // the fake says that it is device 1's
		if err != nil {
			t.Fatal(err)
		}
		register(drv, l, fakeContext+1)
		if err := drv.Host().Unregister(p); err != nil {
			t.Error(err)
		}
		l.took()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if calls := l.took(); len(calls) != 1 || !strings.HasPrefix(calls[0], "cuMemPoolDestroy") {
			t.Errorf("closing an adopted device made the calls %s, want only cuMemPoolDestroy", calls)
		}
		if _, err := drv.adopt(0); err == nil {
			t.Error("adopted context 0")
		}
	})
	t.Run("kept", func(t *testing.T) {
		l := newFake(t)
		drv, err := load(l.lookup)
		if err != nil {
			t.Fatal(err)
		}
		release, err := drv.Host().(driver.Keeper).Keep()
		if err != nil {
			t.Fatal(err)
		}
		register(drv, l, fakeContext)
		if err := drv.Host().Unregister(p); err != nil {
			t.Error(err)
		}
		if l.active != [2]int{1, 0} {
			t.Errorf("retained with nothing registered: %v, want only device 0's, once", l.active)
		}
		for range 2 {
			if err := release(); err != nil {
				t.Error(err)
			}
		}
		l.fail["cuDevicePrimaryCtxRetain"] = fakeError
		if _, err := drv.Host().(driver.Keeper).Keep(); err == nil {
			t.Error("kept what could not be retained")
		}
	})
	t.Run("none", func(t *testing.T) {
		l := newFake(t)
		drv, err := load(l.lookup)
		if err != nil {
			t.Fatal(err)
		}
		register(drv, l, fakeContext)
		if err := drv.Host().Unregister(p); err != nil {
			t.Error(err)
		}
	})
}
