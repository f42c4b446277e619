package asynccopy

// This file has chunks: the page-locked memory that copies of other memory go through.
//
// It is lent by the process's pintensor.Engine for one copy, so nothing stays lent when no copy is under way, and
// copies share nothing that one of them could wait for: if the engine has no memory to lend, chunks are ordinary memory,
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
	least      = 512 << 10 // of several chunks each, if there are four: the host takes 70 µs for it, the driver's calls 4
	pieces     = 2         // of a copy for each goroutine, at least: those that come late find something, and nobody is last for long
	rounds     = 4         // chunks for each goroutine: while the device reads some others are filled
	together   = 8 << 20   // bytes that are lent at once, for several chunks
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
	const page = 4 << 10
	part := func(n int) int { return (size-1)/n/page*page + page } // of n
	return min(max(part(pieces*s.team()), min(max(part(4), smallest), least)), largest)
}

// chunk is memory that a device copies from or to.
type chunk struct {
	raw    []byte
	done   driver.Event // of the last copy
	off, n int          // where its contents belong
}

// loan is memory for one chunk or several.
type loan struct {
	raw  []byte
	lent pintensor.Buffer // none for ordinary memory
	hold pintensor.Hold
}

// lend returns n bytes, of ordinary memory if the engine has none.
func (d *Device) lend(n int64) loan {
	l, ok := d.lendPinned(n)
	if !ok {
		l.raw = make([]byte, n)
	}
	return l
}

func (d *Device) lendPinned(n int64) (loan, bool) {
	lent, err := d.engine().AllocBuffer(n)
	if err != nil {
		if !errors.Is(err, pintensor.ErrLimit) && !errors.Is(err, pintensor.ErrClosed) {
			d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err)) // not for this copy, but somebody must know
		}
		return loan{}, false
	}
	l := loan{raw: lent.Bytes(), lent: lent}
	l.hold, _ = lent.Acquire() // it was lent just now, so it is not released
	return l, true
}

// giveBack returns memory to its engine when e is complete, nil for now. The engine's error is not the
// copy's: the device's next call returns it.
func (d *Device) giveBack(l loan, e *Event) {
	if l.lent == (pintensor.Buffer{}) {
		if e != nil {
			e.hold(l.raw)
		}
		return
	}
	if e != nil {
		l.hold.Until((*flight)(e))
	} else {
		l.hold.Done()
	}
	if err := l.lent.Release(); err != nil {
		d.postpone(fmt.Errorf("asynccopy: page-locked memory: %w", err))
	}
}

// lendMany returns memory for n chunks of step bytes, or for fewer if the engine has no more, and at least for some. It is
// lent in few pieces, as each costs some microseconds to give back; from 4 MiB on those have huge pages.
func (d *Device) lendMany(n, step int) (loans []loan) {
	few := max(together/step, 1)
	for n > 0 {
		k := min(n, few)
		l, ok := d.lendPinned(int64(k) * int64(step))
		switch {
		case ok:
			loans = append(loans, l)
			n -= k
		case few > 1:
			few = 1
		case loans == nil:
			return []loan{{raw: make([]byte, min(n, d.staging.team())*step)}}
		default:
			return loans
		}
	}
	return loans
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
