package pintensor

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
)

// fakeHost locks nothing. Its name decides whether the engine can do without.
type fakeHost struct {
	name     string
	capacity int64 // bytes; 0: any number
	mu       sync.Mutex
	sizes    map[uintptr]int64 // by address: it must not keep memory alive
	used     int64

	unregistering func() // called before a registration ends, if not nil
}

func (h *fakeHost) Name() string { return h.name }

func (h *fakeHost) Register(p unsafe.Pointer, n int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.capacity > 0 && h.used+n > h.capacity {
		return &driver.Error{Call: "fakeRegister", Code: driver.CodeOutOfMemory, Name: "OUT_OF_MEMORY", Text: "no more"}
	}
	if h.sizes == nil {
		h.sizes = make(map[uintptr]int64)
	}
	h.sizes[uintptr(p)] = n
	h.used += n
	return nil
}

func (h *fakeHost) Unregister(p unsafe.Pointer) error {
	if h.unregistering != nil {
		h.unregistering()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used -= h.sizes[uintptr(p)]
	delete(h.sizes, uintptr(p))
	return nil
}

// bytes returns how many are registered.
func (h *fakeHost) bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.used
}

// rig is an engine over a host that is checked and can be made to fail.
type rig struct {
	*Engine
	host *drivertest.FaultyHost
}

// newRig returns an engine that must lock its memory, and checks when the test ends that nothing is left of
// it. Its smallest block is minBlock: each tensor has a segment for itself.
func newRig(t testing.TB, opts ...Option) rig {
	t.Helper()
	return newRigOver(t, &fakeHost{name: "cuda"}, opts...)
}

// newCarvingRig is newRig with segments of several blocks.
func newCarvingRig(t testing.TB, opts ...Option) rig {
	t.Helper()
	e := newRig(t, opts...)
	e.smallest = 0
	return e
}

func newRigOver(t testing.TB, h driver.Host, opts ...Option) rig {
	t.Helper()
	leak.Check(t)
	host := drivertest.NewFaultyHost(drivertest.CheckedHost(t, h))
	e, err := NewEngine(append([]Option{WithDriver(host)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	e.smallest = minBlock
	t.Cleanup(func() { t.Helper(); checkEmpty(t, e) })
	return rig{e, host}
}

// checkEmpty closes e and checks that nothing of it is left.
func checkEmpty(t testing.TB, e *Engine) {
	t.Helper()
	gcUntil(t, "nothing is lent", func() bool { return e.Stats().Lent.Current == 0 })
	if err := e.Close(); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("Close: %v", err)
	}
	waitUntil(t, "all blocks are given up", func() bool { return e.owned.Load() == 0 })
	s := e.Stats()
	for name, u := range map[string]Usage{
		"Requested": s.Requested, "Lent": s.Lent, "Cached": s.Cached, "InFlight": s.InFlight, "Registered": s.Registered,
	} {
		if u.Current != 0 {
			t.Errorf("%s is %d bytes at the end, want 0", name, u.Current)
		}
	}
	for name, l := range map[string]*level{"Requested": &e.n.requested, "Lent": &e.n.lent, "Cached": &e.n.cached} {
		if now, _ := l.read(); now != 0 { // Stats would show 0
			t.Errorf("%s is counted as %d bytes at the end", name, now)
		}
	}
	if n := e.n.allocated.Load(); n != 0 {
		t.Errorf("%d blocks count as lent by Alloc at the end", n)
	}
	for _, x := range blocks.all() {
		if x.s.eng == e {
			t.Errorf("a segment of %d bytes is still in the registry", x.s.bytes())
		}
	}
}

// all returns the entries.
func (r *registry) all() (all []extent) {
	for _, in := range r.runs() {
		all = append(all, in.extents...)
	}
	return all
}

func gcUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	t.Errorf("after many garbage collections it is still not so that %s", what)
}

func waitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Errorf("it is still not so that %s", what)
			return
		}
	}
}

// work is a Completion that a test completes.
type work struct {
	done  chan struct{}
	err   error
	asked atomic.Int64
}

func newWork() *work { return &work{done: make(chan struct{})} }

func (w *work) complete() { close(w.done) }

func (w *work) Done() (bool, error) {
	w.asked.Add(1)
	select {
	case <-w.done:
		return true, w.err
	default:
		return false, nil
	}
}

func (w *work) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// use puts work on the memory of d.
func useBy(t testing.TB, d *tensor.Dense, w *work) {
	t.Helper()
	h, err := Acquire(d)
	if err != nil {
		t.Fatal(err)
	}
	if !h.Pinned() {
		t.Fatal("the memory is not pinned")
	}
	h.Until(w)
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func slice(t testing.TB, d *tensor.Dense, s ...tensor.Slice) *tensor.Dense {
	t.Helper()
	return must[tensor.View](t)(d.Slice(s...)).(*tensor.Dense)
}

// base is where d's memory starts.
func base(d *tensor.Dense) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(d.Raw))) }

// fillWith does with few instructions, which matters under the race detector, what a loop does.
func fillWith(s []byte, x byte) {
	s[0] = x
	for done := 1; done < len(s); done *= 2 {
		copy(s[done:], s[:done])
	}
}
