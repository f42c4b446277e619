package pintensor

// This file measures what pinned memory does to the garbage collector, and it to the memory of the process.
// docs/memory.md has the figures.

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

const pinnedForBench = 512 << 20

// garbage keeps the compiler from making none.
var garbage []byte

// withCollector sets GOGC and GOMEMLIMIT until the benchmark ends.
func withCollector(b *testing.B, percent int, limit int64) {
	b.Helper()
	oldPercent, oldLimit := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit)
	b.Cleanup(func() {
		debug.SetGCPercent(oldPercent)
		debug.SetMemoryLimit(oldLimit)
		debug.FreeOSMemory()
	})
}

// pinFor pins n bytes until the benchmark ends.
func pinFor(b *testing.B, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	e := benchEngine(b)
	d := must[*tensor.Dense](b)(e.New(tensor.Uint8, n))
	b.Cleanup(func() {
		if err := e.Release(d); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkGarbageWithPinned makes 1 MiB of garbage in small pieces, beside pinned memory that is lent: how much
// garbage there is between two collections, and how large the heap gets.
func BenchmarkGarbageWithPinned(b *testing.B) {
	const free = pinnedForBench / 8
	for _, c := range []struct {
		set     string
		percent int
		limit   int64
	}{
		{"GOGC=100", 100, math.MaxInt64},
		{"GOGC=12", 12, math.MaxInt64},
		{"GOMEMLIMIT=pinned+64MiB", 100, pinnedForBench + free},
	} {
		for _, pinned := range []int{0, pinnedForBench} {
			b.Run(fmt.Sprintf("pinned=%dMiB/%s", pinned>>20, c.set), func(b *testing.B) {
				pinFor(b, pinned)
				debug.FreeOSMemory()
				withCollector(b, c.percent, c.limit)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
				peak := uint64(0)
				b.SetBytes(1 << 20)
				for b.Loop() {
					for range 1 << 10 {
						garbage = make([]byte, 1<<10)
					}
					metrics.Read(heap)
					peak = max(peak, heap[0].Value.Uint64())
				}
				runtime.ReadMemStats(&after)
				if n := after.NumGC - before.NumGC; n > 0 {
					b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/(1<<20)/float64(n), "MiB-garbage/GC")
				}
				b.ReportMetric(float64(peak)/(1<<20), "MiB-heap-peak")
			})
		}
	}
}

// BenchmarkGCWithPinned is one collection, beside pinned memory, which has no pointers to follow.
func BenchmarkGCWithPinned(b *testing.B) {
	for _, pinned := range []int{0, pinnedForBench} {
		b.Run(fmt.Sprintf("pinned=%dMiB", pinned>>20), func(b *testing.B) {
			pinFor(b, pinned)
			for b.Loop() {
				runtime.GC()
			}
		})
	}
}

// BenchmarkTrimToSystem gives memory up, and says how much the process has after each step: Trim unlocks it and
// gives it to the heap, a collection finds it, and the heap gives it to the system in its own time, or when it is
// told to.
func BenchmarkTrimToSystem(b *testing.B) {
	if resident(b) == 0 {
		b.Skip("this system has no /proc/self/statm")
	}
	e := benchEngine(b)
	debug.FreeOSMemory()
	before := resident(b)
	for b.Loop() {
		d := must[*tensor.Dense](b)(e.New(tensor.Uint8, pinnedForBench))
		if err := e.Release(d); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(resident(b)-before, "MiB-cached")
		if _, err := e.Trim(0); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(resident(b)-before, "MiB-trimmed")
		d = nil // it refers to the memory still
		runtime.GC()
		b.ReportMetric(resident(b)-before, "MiB-collected")
		debug.FreeOSMemory()
		b.ReportMetric(resident(b)-before, "MiB-freed")
	}
}

// resident returns how many MiB of memory the process has, 0 if the system doesn't say.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages := must[float64](b)(strconv.ParseFloat(strings.Fields(string(text))[1], 64))
	return pages * float64(pageSize) / (1 << 20)
}
