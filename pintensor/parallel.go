package pintensor

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// This file shares work on large memory among goroutines. One thread moves 5 to 10 GB/s through memory
// that is in no cache, eight move 35 and sixteen 37; more gain nothing. To wake goroutines takes 10 to 20 µs on an H200's
// host, in which one copies 256 KiB. At 1 MiB several were no faster than one there, at 2 MiB twice as fast; but for
// what is gathered from short pieces, which one thread does at 3 GB/s: there they were 2.7 times as fast at 1 MiB.
//
// Goroutines take one part after another, so that one which begins late, or whose core has other work, keeps
// nobody waiting.

const (
	parallelFrom  = 2 << 20 // bytes from which several goroutines work
	maxPart       = 4 << 20
	partsEachHas  = 4  // for each goroutine, where that makes none too small
	mostParallel  = 16 // goroutines, if nothing else is said
	limitParallel = 1024
)

// WithParallelism bounds how many goroutines one call uses to copy (Pin, PinInto), clear (New, Alloc) or first touch (new
// memory) 2 MiB and more, or 512 KiB that lie in pieces shorter than 1 KiB; smaller tensors are copied and cleared by the
// caller's own. The default, also given by 0, is 16; GOMAXPROCS bounds it too. 1 leaves all to the caller's goroutine, for
// programs that keep their cores busy in another way. A negative number, and one of more than 1024, is an error.
func WithParallelism(n int) Option {
	return func(e *Engine) error {
		if n < 0 || n > limitParallel {
			return fmt.Errorf("pintensor: WithParallelism: n is %d goroutines, want 0 to %d", n, limitParallel)
		}
		if n == 0 {
			n = mostParallel
		}
		e.parallelism = n
		return nil
	}
}

// grain is what is worth another goroutine.
type grain struct{ from, part int } // bytes from which there are several, and that each has at least

var (
	fast = grain{parallelFrom, 512 << 10} // copies and clears memory
	slow = grain{512 << 10, 128 << 10}    // gathers pieces shorter than shortRun
)

const shortRun = 1 << 10

// share calls work for the parts of the range [0, n), which together are all of it. Parts begin at multiples of
// unit. Those of a large range are worked on at once, by at most that many goroutines, the caller's among them.
func share(most, n, unit int, g grain, work func(from, to int)) {
	most = min(n/g.part, most, runtime.GOMAXPROCS(0))
	if n < g.from || most < 2 {
		work(0, n)
		return
	}
	part := min(max(n/most/partsEachHas, g.part), maxPart)
	part = (part + unit - 1) / unit * unit
	var begun atomic.Int64
	takeParts := func() {
		for {
			from := (int(begun.Add(1)) - 1) * part
			if from >= n {
				return
			}
			work(from, min(from+part, n))
		}
	}
	var wg sync.WaitGroup
	for range most - 1 {
		wg.Go(takeParts)
	}
	takeParts()
	wg.Wait()
}

// clearAll zeroes memory.
func (e *Engine) clearAll(mem []byte) {
	if len(mem) < parallelFrom {
		clear(mem)
		return
	}
	share(e.parallelism, len(mem), heapPage, fast, func(from, to int) { clear(mem[from:to]) })
}
