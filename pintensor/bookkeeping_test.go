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
	if n := unsafe.Sizeof(levels{}); n != 64 {
		t.Errorf("levels are %d bytes, want a cache line", n)
	}
	for _, size := range []int{256, 4 << 10, 64 << 10} {
		t.Run(fmt.Sprintf("size=%d", size), func(t *testing.T) {
			if raceEnabled {
				t.Skip("the race detector's own memory is in the figures")
			}
			const n = 1000
			leak.Check(t)
			e := must[*Engine](t)(NewEngine(WithDriver(oblivious{})))
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
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
