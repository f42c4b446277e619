package soft

// This file tests devices that are late, slow, or fail: what tests of the layers above rely on.

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

// bench is a device with two streams, an event and some memory on each side.
type bench struct {
	*testing.T
	d    driver.Device
	a, b driver.Stream
	e    driver.Event
	p    driver.DevicePtr
	host []byte
}

const benchBytes = 4096

func newBench(t *testing.T, config Config) *bench {
	t.Helper()
	d, err := New(config).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	x := &bench{T: t, d: d, host: make([]byte, benchBytes)}
	var errs [4]error
	x.a, errs[0] = d.NewStream(0)
	x.b, errs[1] = d.NewStream(0)
	x.e, errs[2] = d.NewEvent()
	x.p, errs[3] = d.Alloc(benchBytes)
	x.ok(errors.Join(errs[:]...))
	return x
}

func (x *bench) ok(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

func (x *bench) at() unsafe.Pointer { return unsafe.Pointer(&x.host[0]) }

// code expects a *driver.Error with the code.
func code(t *testing.T, err error, want int) {
	t.Helper()
	var e *driver.Error
	if !errors.As(err, &e) || e.Code != want {
		t.Errorf("%v, want code %d", err, want)
	}
}

func TestLateRunsNothingBeforeItMust(t *testing.T) {
	see := map[string]func(*bench) error{
		"SyncStream": func(x *bench) error { return x.d.SyncStream(x.a) },
		"SyncEvent":  func(x *bench) error { return x.d.SyncEvent(x.e) },
		"SyncStream of one that waits": func(x *bench) error {
			return errors.Join(x.d.WaitEvent(x.b, x.e), x.d.SyncStream(x.b))
		},
		"Query": func(x *bench) error {
			for range patience {
				if done, err := x.d.Query(x.e); done || err != nil || x.host[0] != 0 {
					t.Errorf("Query: %v, %v with %d copied, want false", done, err, x.host[0])
				}
			}
			done, err := x.d.Query(x.e)
			if !done {
				t.Errorf("Query number %d: false", patience+1)
			}
			return err
		},
		"Close":                         func(x *bench) error { return x.d.Close() },
		"Close with a destroyed stream": func(x *bench) error { return errors.Join(x.d.DestroyStream(x.a), x.d.Close()) },
	}
	for name, see := range see {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			x := newBench(t, Config{Late: true})
			x.ok(x.d.Memset(x.p, 7, benchBytes, x.a, 0))
			x.ok(x.d.CopyDtoH(x.at(), x.p, benchBytes, x.a, x.e))
			x.ok(x.d.SyncStream(x.b)) // which has nothing to do with it
			runtime.Gosched()
			if x.host[0] != 0 {
				t.Fatal("ran too early")
			}
			x.ok(see(x))
			if !bytes.Equal(x.host, bytes.Repeat([]byte{7}, benchBytes)) {
				t.Error("did not run")
			}
			x.ok(x.d.Close())
		})
	}
}

// TestLateShowsReuse is the purpose of all this.
func TestLateShowsReuse(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{Late: true})
	got := make([]byte, benchBytes)
	x.ok(x.d.CopyHtoD(x.p, x.at(), benchBytes, x.a, 0))
	x.host[5] = 1 // too early: the copy has not run
	x.ok(x.d.CopyDtoH(unsafe.Pointer(&got[0]), x.p, benchBytes, x.a, 0))
	x.ok(x.d.SyncStream(x.a))
	if got[5] != 1 {
		t.Error("a source that is overwritten too early does not show")
	}
	p, err := x.d.Alloc(16)
	x.ok(err)
	x.ok(x.d.CopyDtoH(x.at(), p, 16, x.a, 0))
	x.ok(x.d.SyncStream(x.a))
	if !bytes.Equal(x.host[:16], bytes.Repeat([]byte{0xFF}, 16)) {
		t.Errorf("fresh memory is % x, want NaN", x.host[:16])
	}
	x.ok(x.d.Memset(p, 1, 16, x.a, 0))
	x.ok(x.d.Free(p)) // too early
	code(t, x.d.SyncStream(x.a), driver.CodeIllegalAddress)
	code(t, x.d.Close(), driver.CodeIllegalAddress)
}

// TestQueueDoesNotKeepMemory: a source that nobody else refers to is collected.
func TestQueueDoesNotKeepMemory(t *testing.T) {
	leak.Check(t)
	x := newBench(t, Config{Late: true})
	collected := make(chan struct{})
	func() {
		src := make([]byte, 64<<10)
		runtime.SetFinalizer(&src[0], func(*byte) { close(collected) })
		x.ok(x.d.CopyHtoD(x.p, unsafe.Pointer(&src[0]), benchBytes, x.a, 0))
	}()
	for start := time.Now(); ; {
		runtime.GC()
		select {
		case <-collected:
			x.ok(x.d.Close())
			return
		case <-time.After(time.Millisecond):
			if time.Since(start) > 5*time.Second {
				t.Fatal("the queue keeps its source alive, and would hide a layer above that does not")
			}
		}
	}
}

func TestFailuresAreSticky(t *testing.T) {
	own := &driver.Error{Call: "own", Code: 716, Name: "OWN", Text: "own"}
	for name, c := range map[string]struct {
		late bool
		err  error
		code int
	}{
		"eager": {false, errors.New("broken"), driver.CodeLaunchFailure}, "late": {true, errors.New("broken"), driver.CodeLaunchFailure},
		"own": {false, own, 716},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			var seen []Op
			x := newBench(t, Config{Late: c.late, Fail: func(op Op) error {
				seen = append(seen, op)
				if op.N == 2 {
					return c.err
				}
				return nil
			}})
			x.ok(x.d.Memset(x.p, 1, 16, x.a, x.e))
			x.ok(x.d.SyncEvent(x.e))
			x.ok(x.d.CopyDtoH(x.at(), x.p, 16, x.a, x.e)) // will fail, later
			first := x.d.SyncEvent(x.e)
			code(t, first, c.code)
			if x.host[0] != 0 {
				t.Error("the operation that failed was carried out")
			}
			_, queryErr := x.d.Query(x.e)
			_, allocErr := x.d.Alloc(1)
			for i, err := range []error{
				queryErr, allocErr, x.d.SyncStream(x.b), x.d.Memset(x.p, 1, 16, x.b, 0), x.d.Record(x.e, x.b), x.d.TrimPool(0),
				x.d.Free(x.p), x.d.DestroyEvent(x.e), x.d.DestroyStream(x.a), x.d.DestroyStream(x.b),
			} {
				if err != first {
					t.Errorf("later call %d: %v, want %v", i, err, first)
				}
			}
			core := x.d.(*device).core
			if core.memory.used != 0 || len(core.streams) != 0 || len(core.events) != 0 {
				t.Error("a failed device does not release")
			}
			if err := x.d.Close(); err != first {
				t.Errorf("Close: %v, want %v", err, first)
			}
			if err := x.d.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
			want := []Op{{Call: "Memset", Stream: x.a, Bytes: 16, N: 1}, {Call: "CopyDtoH", Stream: x.a, Bytes: 16, N: 2}}
			if len(seen) != 2 || seen[0] != want[0] || seen[1] != want[1] {
				t.Errorf("operations seen: %+v, want %+v", seen, want)
			}
		})
	}
}

// TestNothingRunsAfterAFailure: what was issued behind the failure, on any stream, is dropped.
func TestNothingRunsAfterAFailure(t *testing.T) {
	for _, late := range []bool{false, true} {
		leak.Check(t)
		x := newBench(t, Config{Late: late, Fail: func(op Op) error {
			if op.N == 1 {
				return errors.New("broken")
			}
			return nil
		}, Delay: func(op Op) time.Duration { return time.Millisecond }})
		x.ok(x.d.Memset(x.p, 1, 16, x.a, x.e))
		x.ok(x.d.WaitEvent(x.b, x.e))
		x.ok(x.d.CopyDtoH(x.at(), x.p, 16, x.a, 0))
		x.host[0], x.host[16] = 9, 9
		x.ok(x.d.CopyDtoH(unsafe.Pointer(&x.host[16]), x.p, 16, x.b, 0))
		code(t, x.d.SyncStream(x.b), driver.CodeLaunchFailure)
		code(t, x.d.Close(), driver.CodeLaunchFailure)
		if x.host[0] != 9 || x.host[16] != 9 {
			t.Errorf("late=%v: a copy ran after the failure", late)
		}
	}
}

// TestLateWithManyCallers: operations run one at a time and in order, whoever waits for them.
func TestLateWithManyCallers(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		var last, running int
		var mu sync.Mutex
		x := newBench(t, Config{Late: true, Delay: func(op Op) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if running++; running != 1 || op.N != int64(last+1) {
				t.Errorf("operation %d starts after %d, with %d running", op.N, last, running)
			}
			last = int(op.N)
			return time.Millisecond
		}, Fail: func(Op) error {
			mu.Lock()
			defer mu.Unlock()
			running--
			return nil
		}})
		for range 20 {
			x.ok(x.d.Memset(x.p, 1, 16, x.a, x.e))
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				wait := func() error { return x.d.SyncStream(x.a) }
				if i%2 == 0 {
					wait = func() error { return x.d.SyncEvent(x.e) }
				}
				if err := wait(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if last != 20 || running != 0 {
					t.Errorf("returned after operation %d of 20", last)
				}
			})
		}
		all.Wait()
		x.ok(x.d.Close())
	})
}

// TestFailedStreamsDrain: those who wait on a device that fails meanwhile get the error, all of them.
func TestFailedStreamsDrain(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, Config{
			Delay: func(Op) time.Duration { return time.Second },
			Fail:  func(Op) error { return errors.New("broken") },
		})
		x.ok(x.d.Memset(x.p, 1, 16, x.a, x.e))
		x.ok(x.d.WaitEvent(x.b, x.e))
		for range 100 {
			x.ok(x.d.Memset(x.p, 1, 16, x.b, 0))
		}
		failed := make(chan error)
		for _, s := range []driver.Stream{x.a, x.b, x.b} {
			go func() { failed <- x.d.SyncStream(s) }()
		}
		for range 3 {
			code(t, <-failed, driver.CodeLaunchFailure)
		}
		code(t, x.d.Close(), driver.CodeLaunchFailure)
	})
}

func TestStreamsRunConcurrentlyAndInOrder(t *testing.T) {
	leak.Check(t)
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, Config{Delay: func(Op) time.Duration { return time.Second }})
		start := time.Now()
		for range 2 {
			x.ok(x.d.Memset(x.p, 1, 16, x.a, 0))
			x.ok(x.d.Memset(x.p+64, 1, 16, x.b, x.e))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("issuing blocked for %v", took)
		}
		x.ok(errors.Join(x.d.SyncStream(x.a), x.d.SyncStream(x.b)))
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("two operations of a second on each of two streams took %v, want 2s", took)
		}
		// A wait counts as an operation: a third second on b, then a fourth on a waiting for it, then a
		// fifth.
		x.ok(x.d.Memset(x.p, 1, 16, x.b, x.e))
		x.ok(x.d.WaitEvent(x.a, x.e))
		x.ok(x.d.DestroyStream(x.b))
		x.ok(x.d.Memset(x.p, 1, 16, x.a, 0))
		x.ok(x.d.Close())
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("with a stream waiting for the other, all took %v, want 5s", took)
		}
	})
}
