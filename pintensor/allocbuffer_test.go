package pintensor

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"gorgonia.org/tensor"
)

func TestBuffers(t *testing.T) {
	for _, n := range []int64{0, 1, 300, 5000, 32 << 10, 3 << 20} {
		e := newCarvingRig(t)
		f := must[Buffer](t)(e.AllocBuffer(n))
		mem := f.Bytes()
		if int64(len(mem)) != n || int64(cap(mem)) != max(n, 1) || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%blockAlign != 0 {
			t.Errorf("%d bytes: %d, room for %d", n, len(mem), cap(mem))
		}
		if s := e.Stats(); s.Requested.Current != n || s.Lent.Current < n {
			t.Errorf("%d bytes: %v", n, s)
		}
		if n > 0 {
			d := tensor.New(tensor.WithShape(int(n)), tensor.WithBacking(mem))
			if !e.IsPinned(d) || !e.Owns(d) {
				t.Error("a tensor of its bytes is not pinned")
			}
			if err := e.Release(d); !errors.Is(err, ErrNotOwner) {
				t.Errorf("releasing a tensor of its bytes: %v, want ErrNotOwner", err)
			}
		}
		if err := f.Release(); err != nil {
			t.Fatal(err)
		}
		other := must[Buffer](t)(e.AllocBuffer(n))
		if err := f.Release(); !errors.Is(err, ErrReleased) {
			t.Errorf("again, when somebody else has it: %v, want ErrReleased", err)
		}
		if _, err := f.Acquire(); !errors.Is(err, ErrReleased) {
			t.Errorf("Acquire: %v, want ErrReleased", err)
		}
		if s := e.Stats(); s.Requested.Current != n || s.Warm != 1 {
			t.Errorf("%d bytes: %v", n, s)
		}
		if err := other.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestABufferIsKeptWhileItIsCopied(t *testing.T) {
	e := newRig(t)
	f, w := must[Buffer](t)(e.AllocBuffer(100)), newWork()
	must[Hold](t)(f.Acquire()).Until(w)
	if err := f.Release(); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.InFlight.Current != minBlock || s.Cached.Current != 0 {
		t.Errorf("released in flight: %v", s)
	}
	w.complete()
	if s := e.Stats(); s.InFlight.Current != 0 || s.Cached.Current != minBlock {
		t.Errorf("completed: %v", s)
	}
}

func TestADroppedBufferIsForgotten(t *testing.T) {
	e := newCarvingRig(t)
	mem := must[Buffer](t)(e.AllocBuffer(100)).Bytes()
	for range 3 {
		runtime.GC()
	}
	if s := e.Stats(); s.Lent.Current == 0 {
		t.Error("taken back while its bytes are in use")
	}
	runtime.KeepAlive(mem)
	mem = nil
	gcUntil(t, "it is back", func() bool { return e.Stats().Forgotten == 1 && e.Stats().Lent.Current == 0 })
}

func TestBuffersRefuse(t *testing.T) {
	e := newRig(t, WithLimit(minBlock))
	if _, err := e.AllocBuffer(-1); err == nil {
		t.Error("-1 bytes")
	}
	if _, err := e.AllocBuffer(minBlock + 1); !errors.Is(err, ErrLimit) {
		t.Errorf("%v, want ErrLimit", err)
	}
	if err := (Buffer{}).Release(); err == nil || (Buffer{}).Bytes() != nil {
		t.Error("the zero Buffer has memory")
	}
	if h, err := (Buffer{}).Acquire(); err != nil || h != (Hold{}) {
		t.Errorf("%v, %v", h, err)
	}
	f := must[Buffer](t)(e.AllocBuffer(5))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.AllocBuffer(1); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if err := f.Release(); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestBuffersAllocateNothing(t *testing.T) {
	e := newCarvingRig(t)
	for _, n := range []int64{100, 100_000, 5 << 20} {
		got := testing.AllocsPerRun(200, func() {
			f, err := e.AllocBuffer(n)
			if err != nil {
				t.Fatal(err)
			}
			f.Bytes()[0] = 1
			if err := f.Release(); err != nil {
				t.Fatal(err)
			}
		})
		if got != 0 {
			t.Errorf("%d bytes: %v allocations, want 0", n, got)
		}
	}
}

// BenchmarkBuffer is what a loader pays for memory that it has no tensor for.
func BenchmarkBuffer(b *testing.B) {
	for _, size := range benchSizes {
		b.Run("size="+sizeName(size), func(b *testing.B) {
			e := benchEngine(b)
			b.ReportAllocs()
			for b.Loop() {
				f, err := e.AllocBuffer(int64(size))
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Release(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
