package asynccopy

// This file has the buffer: the device memory of one tensor and its parts, what work uses it, and when it may be
// freed.
//
// A buffer knows the event of its last write and those of its uses since: on each stream the last one, or some
// where calls at the same time leave open which that is. A write that was in no order with the last one, into another
// part perhaps, is a use that readers wait for as well. With these a stream that is about to read waits for
// the write, one that is about to write waits for everything, and memory is freed behind everything: all on
// the device. Work of other code, which this package can't see, is a use without an event: whoever has to wait
// for it records one at that time, behind all work issued so far.
//
// Calls in progress count in busy, so that a Release meanwhile only notes that the memory is to go, and the
// last call frees it.

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/pintensor/pin/internal/driver"
)

type buffer struct {
	dev  *Device
	ptr  driver.DevicePtr
	size int64
	home *Stream // where it was allocated and will be freed

	next, prev *buffer // in the device's list; guarded by Device.mu

	mu       sync.Mutex
	ready    *Event // the last write; nil if there was none
	ended    *Event // the last that Tensor.Used recorded
	writes   int    // copies into the memory so far
	uses     []use  // since then
	serial   int    // of the latest use
	busy     int32  // calls in progress
	handles  int32  // tensors that were not released
	released bool   // no handle is left
}

// use is work on a stream that uses a buffer.
type use struct {
	stream  *Stream
	last    *Event // nil if the use is foreign
	foreign bool   // other code's work: anything issued to the stream until the next write may be part of it
	write   bool   // it is a write, in no order with the last one
	follows *Event // the write that other code's work follows
	ended   int64  // what its stream's count of ended foreign uses came to with it, see EndUse; 0: it has not ended
	serial  int
}

// access is a call's permission to issue work on a buffer.
type access struct {
	buf    *buffer
	ptr    driver.DevicePtr // of the tensor's part of the buffer
	size   int64
	stream *Stream
	write  bool
	ready  *Event // when access began
	serial int    // of the latest use that it waited for
}

// begin makes s wait for whatever its use of x has to follow. The caller is inside s's gate, and must end the
// access.
func (x *Tensor) begin(s *Stream, write bool) (access, error) {
	b := x.buf
	a := access{buf: b, ptr: x.ptr, size: x.size, stream: s, write: write}
	var few [4]use
	waits := few[:0]
	b.mu.Lock()
	if x.released {
		b.mu.Unlock()
		return a, fmt.Errorf("the tensor was %w", ErrReleased)
	}
	b.busy++
	runtime.KeepAlive(x) // or it could be found dropped before its buffer knows of the call
	a.ready, a.serial = b.ready, b.serial
	if b.ready == nil && b.home != s {
		// The memory may be in use by work issued to home before it was allocated, and is its own only
		// after that.
		waits = append(waits, use{stream: b.home, foreign: true})
	}
	for _, u := range b.uses {
		if u.stream != s && (write || u.foreign || u.write) {
			waits = append(waits, u)
		}
	}
	b.mu.Unlock()
	if err := s.afterUses(a.ready, waits); err != nil {
		a.end()
		return a, err
	}
	if !write {
		if err := lastFailure(a.ready, waits); err != nil {
			a.end()
			return a, missing(err)
		}
	}
	return a, nil
}

// lastFailure returns the error of the last write, or of one at the same time, as far as it is known.
func lastFailure(ready *Event, uses []use) error {
	if ready == nil {
		return nil
	}
	if err := ready.failed(); err != nil {
		return err
	}
	for _, u := range uses {
		if u.write {
			if err := u.last.failed(); err != nil {
				return err
			}
		}
	}
	return nil
}

// afterUses makes s wait for a write and for uses.
func (s *Stream) afterUses(ready *Event, uses []use) error {
	if err := s.after(ready); err != nil {
		return err
	}
	for _, u := range uses {
		var err error
		if u.foreign && s.waits.includeUse(u) {
			continue
		}
		if u.foreign {
			err = s.afterAll(u.stream)
		} else {
			err = s.after(u.last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// publish enters the work that was issued, or will be by a stage, as e.
func (a access) publish(e *Event) {
	b := a.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.write {
		b.wrote(a, e)
	} else {
		b.used(use{stream: a.stream, last: e}, a.serial)
	}
}

// end closes the access when all its work was issued.
func (a access) end() {
	b := a.buf
	b.mu.Lock()
	b.busy--
	free := b.released && b.busy == 0
	b.mu.Unlock()
	if free {
		b.dev.postpone(b.free())
	}
}

// wrote replaces the uses that e follows, which are those the access waited for. What other goroutines issued
// meanwhile stays: it is in no order with e, but the memory must not be freed before it is done.
func (b *buffer) wrote(a access, e *Event) {
	kept := b.uses[:0]
	for _, u := range b.uses {
		if u.serial > a.serial {
			kept = append(kept, u)
		}
	}
	clear(b.uses[len(kept):])
	b.uses = kept
	if b.ready != a.ready {
		b.used(use{stream: b.ready.stream, last: b.ready, write: true}, a.serial)
	}
	b.ready = e
	b.writes++
}

// over reports whether the work is known to be complete, without asking the driver.
func (u use) over() bool {
	if !u.foreign {
		done, _ := u.last.result()
		return done
	}
	select {
	case <-u.stream.gone:
		return true
	default:
		return false
	}
}

// used adds a use. It takes the place of those on the same stream that were there at the time of serial, when
// the access began: they were issued first. Others may have been issued later, whoever published first. A write
// stays if u is none: readers don't wait for u.
func (b *buffer) used(u use, serial int) {
	kept := b.uses[:0]
	for _, old := range b.uses {
		if old.serial > serial || !old.over() && (old.stream != u.stream || old.foreign != u.foreign || old.write && !u.write) {
			kept = append(kept, old)
		}
	}
	clear(b.uses[len(kept):])
	b.serial++
	u.serial = b.serial
	b.uses = append(kept, u)
}

// otherWrites returns the events of writes that were in no order with the last one.
func (b *buffer) otherWrites() (events []*Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.uses {
		if u.write {
			events = append(events, u.last)
		}
	}
	return events
}

// letGo takes x away from its buffer: watched if no handle is left and the collector watches their owner, free if the
// caller has to free the buffer, which a call in progress does otherwise.
func (x *Tensor) letGo() (watched, free bool, err error) {
	b := x.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.released {
		return false, false, ErrReleased
	}
	x.released = true
	b.handles--
	b.released = b.handles == 0
	return b.released && x.owner().watched, b.released && b.busy == 0, nil
}

// forget takes b out of the device's accounts, and add enters it.
func (d *Device) forget(b *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.tensors--
	d.counts.memory.add(-b.size)
	if b.next != nil {
		b.next.prev = b.prev
	}
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		d.live = b.next
	}
}

func (d *Device) add(b *buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.tensors++
	d.counts.memory.add(b.size)
	if b.next = d.live; b.next != nil {
		b.next.prev = b
	}
	d.live = b
}
