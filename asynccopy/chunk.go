package asynccopy

// This file has chunks: the page-locked memory that copies of other memory go through.
//
// They are lent by the process's pintensor.Engine for one copy, so nothing stays lent when no copy is under way, and
// copies share nothing that one of them could wait for: if the engine has no memory to lend, a chunk is ordinary memory,
// which is slower but right.

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/pintensor"
)

const (
	smallest   = 256 << 10 // up to here one goroutine and one chunk are faster than several
	least      = 512 << 10 // of several chunks each: the host takes 70 µs for it, the driver's calls 4
	pieces     = 2         // of a copy for each goroutine, at least: those that come late find something, and nobody is last for long
	rounds     = 4         // chunks for each goroutine: while the device reads some others are filled
	goroutines = 8         // of one copy at most; more gain nothing on the machines measured
)

// largest is what no chunk is larger than. Tests make it smaller, to go round with less.
var largest = 2 << 20

// staging is what WithStaging says, 0 for what copies choose.
type staging struct{ goroutines, chunk int }

// team returns how many goroutines a copy may have.
func (s staging) team() int {
	if s.goroutines > 0 {
		return s.goroutines
	}
	return min(runtime.GOMAXPROCS(0), goroutines)
}

// step returns the size of a chunk for a copy.
func (s staging) step(size int) int {
	if s.chunk > 0 {
		return s.chunk
	}
	return min(max((size-1)/(pieces*s.team())+1, least), largest)
}

// chunk is memory that a device copies from or to.
type chunk struct {
	raw  []byte
	lent pintensor.Buffer // whose memory raw is, none for ordinary memory
	hold pintensor.Hold

	done   driver.Event // of the last copy
	off, n int          // where its contents belong, if they are yet to land on the host
}

// lend returns a chunk of n bytes.
func (d *Device) lend(n int64) chunk {
	lent, err := d.engine().AllocBuffer(n)
	if err != nil {
		if !errors.Is(err, pintensor.ErrLimit) && !errors.Is(err, pintensor.ErrClosed) {
			d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err)) // not for this copy, but somebody must know
		}
		return chunk{raw: make([]byte, n)}
	}
	c := chunk{raw: lent.Bytes(), lent: lent}
	c.hold, _ = lent.Acquire() // it was lent just now, so it is not released
	return c
}

// giveBack returns the chunk to its engine when e is complete, nil for now. The engine's error is not the
// copy's: the device's next call returns it.
func (d *Device) giveBack(c chunk, e *Event) {
	if c.lent == (pintensor.Buffer{}) {
		if e != nil {
			e.hold(c.raw)
		}
		return
	}
	if e != nil {
		c.hold.Until((*flight)(e))
	} else {
		c.hold.Done()
	}
	if err := c.lent.Release(); err != nil {
		d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err))
	}
}

// hold keeps ordinary memory alive until e is complete.
func (e *Event) hold(mem []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done {
		e.keep = &kept{mem, e.keep}
	}
}

// land copies what the device has put into the chunk to its place.
func (k *chunk) land(dst []byte) {
	copy(dst[k.off:], k.raw[:k.n])
	k.n = 0
}
