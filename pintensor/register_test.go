package pintensor

import (
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"gorgonia.org/tensor"
)

func TestRegister(t *testing.T) {
	e, other := newRig(t), newRig(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(300, 100))
	d.Data().([]float32)[7] = 7
	unregister := must[func() error](t)(e.Register(d))
	v := slice(t, d, tensor.S(3, 20))
	if !e.IsPinned(d) || !other.IsPinned(v) || e.Owns(d) {
		t.Errorf("pinned %v and %v, owned %v; want true, true, false", e.IsPinned(d), other.IsPinned(v), e.Owns(d))
	}
	if s := e.Stats(); s.Registered.Current < 120_000 || s.Registered.Current%int64(pageSize) != 0 || s.Lent.Current != 0 {
		t.Errorf("%+v, want whole pages of 120000 bytes registered", s)
	}
	for name, err := range map[string]error{"again": second(e.Register(d)), "a view": second(e.Register(v)), "elsewhere": second(other.Register(d))} {
		if !errors.Is(err, ErrOverlap) {
			t.Errorf("%s: %v, want ErrOverlap", name, err)
		}
	}
	mine := must[*tensor.Dense](t)(e.New(tensor.Float32, 5))
	if _, err := e.Register(mine); !errors.Is(err, ErrOverlap) {
		t.Errorf("a block: %v, want ErrOverlap", err)
	}
	if err := e.Release(d); !errors.Is(err, ErrNotPinned) {
		t.Errorf("Release: %v, want ErrNotPinned", err)
	}
	for range 2 {
		if err := unregister(); err != nil {
			t.Fatal(err)
		}
	}
	if e.IsPinned(d) || d.Data().([]float32)[7] != 7 {
		t.Errorf("after unregister: pinned %v, element 7 is %v", e.IsPinned(d), d.Data().([]float32)[7])
	}
	again := must[func() error](t)(e.Register(d))
	if err := errors.Join(unregister(), again(), e.Release(mine)); err != nil {
		t.Fatal(err)
	}
	if got, want := e.host.Calls("Unregister"), 2; got != want {
		t.Errorf("%d calls to Unregister, want %d", got, want)
	}
}

func TestRegisterPartOfATensor(t *testing.T) {
	e := newRig(t)
	d := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(100, 10_000))
	v := slice(t, d, tensor.S(20, 40))
	unregister := must[func() error](t)(e.Register(v))
	if !e.IsPinned(v) || e.IsPinned(d) {
		t.Errorf("the part is pinned: %v, the whole: %v", e.IsPinned(v), e.IsPinned(d))
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
}

func TestRegisterKeepsMemoryAlive(t *testing.T) {
	e := newRig(t)
	finalized := make(chan bool, 1)
	unregister := func() func() error {
		mem := make([]byte, 1<<20)
		runtime.SetFinalizer(&mem[0], func(*byte) { finalized <- true })
		return must[func() error](t)(e.Register(tensor.New(tensor.WithShape(1<<20), tensor.WithBacking(mem))))
	}()
	for range 5 {
		runtime.GC()
	}
	select {
	case <-finalized:
		t.Fatal("registered memory was collected")
	case <-time.After(time.Millisecond):
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	gcUntil(t, "the memory is collected", func() bool { return len(finalized) == 1 })
	runtime.KeepAlive(unregister)
}

func TestUnregisterWaitsForCopies(t *testing.T) {
	e := newRig(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(30_000))
	unregister := must[func() error](t)(e.Register(d))
	hold := must[Hold](t)(Acquire(d))
	if err := unregister(); !errors.Is(err, ErrInUse) {
		t.Errorf("under a hold: %v, want ErrInUse", err)
	}
	w := newWork()
	hold.Until(w)
	e.maxWait = 10 * time.Millisecond
	if err := unregister(); !errors.Is(err, ErrInUse) || e.host.Calls("Unregister") != 0 || !e.IsPinned(d) {
		t.Errorf("copy in flight: %v, want ErrInUse and registered memory", err)
	}
	e.maxWait = maxWait
	go func() {
		time.Sleep(10 * time.Millisecond)
		w.complete()
	}()
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	if h := must[Hold](t)(Acquire(d)); h != (Hold{}) {
		t.Error("a hold on memory that is not registered any more")
	}
}

func TestRegisterErrors(t *testing.T) {
	broken := errors.New("broken")
	e := newRig(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(30_000))
	e.host.FailNth("Register", 1, broken)
	if _, err := e.Register(d); !errors.Is(err, broken) || e.IsPinned(d) {
		t.Fatalf("%v, want the driver's error and ordinary memory", err)
	}
	unregister := must[func() error](t)(e.Register(d))
	e.host.FailNth("Unregister", 1, broken)
	if err := unregister(); !errors.Is(err, broken) || !e.IsPinned(d) {
		t.Fatalf("%v, want the driver's error and registered memory", err)
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Register(tensor.New(tensor.WithShape(2), tensor.WithBacking([]string{"a", "b"}))); err == nil {
		t.Error("strings: no error")
	}
	empty := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(0))
	if err := must[func() error](t)(e.Register(empty))(); err != nil {
		t.Errorf("an empty tensor: %v", err)
	}
	if got := unsafe.Pointer(unsafe.SliceData(d.Raw)); got == nil {
		t.Error("the tensor lost its memory")
	}
}

func TestMemoryIsNotPinnedWhileItIsUnregistered(t *testing.T) {
	fake := &fakeHost{name: "cuda"}
	e := newRigOver(t, fake)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(30_000))
	unregister := must[func() error](t)(e.Register(d))
	asked := false
	fake.unregistering = func() {
		asked = true
		if e.IsPinned(d) {
			t.Error("memory that is being unregistered counts as pinned")
		}
		if h, err := Acquire(d); err != nil || h != (Hold{}) {
			t.Errorf("a hold on memory that is being unregistered: %+v, %v", h, err)
		}
		if err := unregister(); !errors.Is(err, ErrInUse) {
			t.Errorf("unregister at the same time: %v, want ErrInUse", err)
		}
	}
	if err := unregister(); err != nil || !asked {
		t.Fatalf("%v, the driver was asked: %v", err, asked)
	}
}

func TestRegisteredMemoryOutlivesClose(t *testing.T) {
	e := newRig(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(30_000))
	unregister := must[func() error](t)(e.Register(d))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if !e.IsPinned(d) {
		t.Error("Close unregistered memory of the caller's")
	}
	if err := unregister(); err != nil {
		t.Fatal(err)
	}
}

// Memory given to Register may lie on the page in which the allocation of a block begins, ahead of the block's own
// first page, where the system's pages are larger than the heap's.
func TestBlocksBesideRegisteredMemoryOnLargerPages(t *testing.T) {
	old := pageSize
	t.Cleanup(func() { pageSize = old }) // when the rig has given everything back
	pageSize = 64 << 10
	e := newRig(t)
	for range 200 {
		d := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(40<<10))
		unregister, err := e.Register(d)
		if err != nil && !errors.Is(err, ErrOverlap) {
			t.Fatal(err)
		}
		b := must[*tensor.Dense](t)(e.New(tensor.Uint8, 40<<10))
		t.Cleanup(func() {
			if err := e.Release(b); err != nil {
				t.Error(err)
			}
			if unregister == nil {
				return
			}
			if err := unregister(); err != nil {
				t.Error(err)
			}
		})
	}
}
