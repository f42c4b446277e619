package pintensor

import (
	"runtime"
	"sync"
)

// This file shares work on large memory among goroutines. One thread moves 5 to 10 GB/s through memory
// that is in no cache, eight move 35; more gain little. Below partSize a thread has about finished when
// another begins.

const (
	parallelFrom = 2 << 20 // bytes from which several goroutines work: at 1 MiB waking them takes as long as they save
	partSize     = 512 << 10
	maxParts     = 8
)

// inParts calls work for the parts of the range [0, n), which together are all of it. Parts begin at
// multiples of unit. Those of a large range are worked on at once; the caller's goroutine does the first.
func inParts(n, unit int, work func(from, to int)) {
	parts := min(n/partSize, maxParts, runtime.GOMAXPROCS(0))
	if n < parallelFrom || parts < 2 {
		work(0, n)
		return
	}
	step := (n/parts + unit) / unit * unit
	var wg sync.WaitGroup
	for from := step; from < n; from += step {
		wg.Go(func() { work(from, min(from+step, n)) })
	}
	work(0, step)
	wg.Wait()
}

// clearAll zeroes memory.
func clearAll(mem []byte) {
	if len(mem) < parallelFrom {
		clear(mem)
		return
	}
	inParts(len(mem), blockUnit, func(from, to int) { clear(mem[from:to]) })
}
