package pintensor

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/leak"
)

// What the package knows of a block takes at most 200 bytes, and New and Release touch one line of the processor's
// cache of it.
func TestBookkeepingIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(block{}); n != 64 {
		t.Errorf("a block is %d bytes, want a cache line", n)
	}
	if n := unsafe.Sizeof(freeList{}); n != 64 {
		t.Errorf("a list is %d bytes, want a cache line", n)
	}
	if n := unsafe.Sizeof(shelf{}); n%64 != 0 {
		t.Errorf("a shelf is %d bytes, want cache lines: its neighbour's lists begin on its last one", n)
	}
	for _, c := range []struct{ size, cores int }{{256, 2}, {256, 16}, {256, 64}, {4 << 10, 2}, {4 << 10, 16}, {64 << 10, 16}} {
		t.Run(fmt.Sprintf("size=%d/cores=%d", c.size, c.cores), func(t *testing.T) {
			size := c.size
			if raceEnabled {
				t.Skip("the race detector's own memory is in the figures")
			}
			const n = 2000 // enough that what else is on the heap is nothing beside it
			leak.Check(t)
			e := must[*Engine](t)(NewEngine(WithDriver(oblivious{})))
			e.divide(c.cores)
			heap := heapInUse()
			if err := e.Reserve(bg, int64(size), n); err != nil {
				t.Fatal(err)
			}
			each := float64(heapInUse()-heap-e.owned.Load()) / n
			if each > 200 {
				t.Errorf("%.0f bytes a block of %d, want at most 200", each, size)
			}
			t.Logf("%.0f bytes a block of %d", each, size)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// oblivious is a host that remembers nothing.
type oblivious struct{}

func (oblivious) Name() string                         { return "cuda" }
func (oblivious) Register(unsafe.Pointer, int64) error { return nil }
func (oblivious) Unregister(unsafe.Pointer) error      { return nil }

func heapInUse() int64 {
	for range 2 { // what has a finalizer goes in the second cycle
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
