package asynccopy

// This file lets the other packages of this module issue work of their own.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pintensor/pin/internal/driver"
)

// Driver returns the driver's device, for packages of this module, which load modules and make graphs with it.
// It is d's: whoever uses it makes sure that d is open, and closes neither it nor what d made. It is nil of a nil or zero
// Device.
func (d *Device) Driver() driver.Device {
	if d == nil {
		return nil
	}
	return d.drv
}

// Issue calls issue to issue work to s with the driver, for packages of this module; others use [Stream.Handle].
// The work comes after what was issued to s so far, copies of pageable memory included. issue gets the driver's
// device and stream, and must neither keep them nor call this package. What the work reads or writes must be
// told of before: [Tensor.Use]. Issue allocates nothing. It returns issue's error, and remembers a sticky one.
// name is what a trace calls the work.
func (s *Stream) Issue(name string, issue func(dev driver.Device, stream driver.Stream) error) error {
	if issue == nil {
		return errors.New("asynccopy: Issue: issue is nil")
	}
	if err := s.enter("Issue"); err != nil {
		return err
	}
	defer s.gate.leave()
	s.awaitTurn()
	if t, ok := s.dev.drv.(*traced); ok {
		return s.dev.fail(t.issue(name, s.handle, issue))
	}
	return s.dev.fail(issue(s.dev.drv, s.handle))
}

// Used says that the work which [Tensor.Use] told of was issued to s by now. Without it x counts as used by
// whatever is issued to s later too, and a copy into x on another stream waits for all of that: which is right, but
// leaves nothing to overlap. Call it after the last kernel that uses x, and Use again before the next. The work
// counts as one that wrote x: Ready, Wait and copies from x follow it.
//
// Work that uses several parts of a tensor may tell so for each: Use before it for all of them, Used after it for all.
//
// Calls of Use and Used for one tensor and stream must not come from several goroutines at the same time.
func (x *Tensor) Used(s *Stream) error { return s.Used(x) }

// Used is [Tensor.Used] for all tensors that some work used, with one event for all of them.
func (s *Stream) Used(xs ...*Tensor) error {
	for _, x := range xs {
		if err := x.check(s, "Used"); err != nil {
			return err
		}
	}
	if len(xs) == 0 {
		return nil
	}
	if err := s.enter("Used"); err != nil {
		return err
	}
	defer s.gate.leave()
	s.awaitTurn()
	e, err := s.record()
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range xs {
		if err := x.used(s, e); err != nil {
			errs = append(errs, named("Used", err))
		}
	}
	return distinct(errs)
}

// used puts e in the place of the foreign use on s.
func (x *Tensor) used(s *Stream, e *Event) error {
	b := x.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.released {
		return fmt.Errorf("the tensor was %w", ErrReleased)
	}
	at := slices.IndexFunc(b.uses, func(u use) bool { return u.foreign && u.stream == s })
	own := slices.Index(x.using, usage{s, b.writes})
	if at < 0 && own < 0 {
		return errors.New("Use was not called for this stream since the last copy into the tensor")
	}
	if own >= 0 {
		x.using = slices.Delete(x.using, own, own+1)
	}
	switch {
	case at >= 0: // below
	case b.ready != nil && b.ready == b.ended && b.ready.stream == s: // another part of the memory has ended the use
		b.ready, b.ended = e, e
		return nil
	default: // and other work came since
		b.used(use{stream: s, last: e, write: true}, b.serial)
		return nil
	}
	follows := b.uses[at].follows
	b.uses = slices.Delete(b.uses, at, at+1)
	if before := b.ready; before != follows {
		// It came since Use, from another goroutine, and in no order with e. It takes no use's place: those may be later.
		b.used(use{stream: before.stream, last: before, write: true}, 0)
	}
	b.ready, b.ended = e, e
	return nil
}

// usage is a Use of a tensor that Used has not ended.
type usage struct {
	stream *Stream
	writes int // of the memory before it: a later copy ends it too
}

// use notes a Use on s. The buffer's lock is held.
func (x *Tensor) use(s *Stream) {
	writes := x.buf.writes
	x.using = slices.DeleteFunc(x.using, func(u usage) bool { return u.stream == s || u.writes != writes })
	x.using = append(x.using, usage{s, writes})
}

// EndUse says that the work which [Tensor.Use] told of, on whichever streams, has been issued by now: what is issued
// to them later does not count. It is [Tensor.Used] without a call of the driver, and so without an event for
// Ready: who has to wait for the work records one then, for all uses that have ended by then. It is for memory that is
// filled again and again, of which a use ends long before.
//
// It ends the uses of all tensors that share x's memory. Of a tensor that nobody uses it changes nothing.
func (x *Tensor) EndUse() {
	if x == nil || x.buf == nil {
		return
	}
	b := x.buf
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.uses {
		if u := &b.uses[i]; u.foreign && u.ended == 0 {
			u.ended = u.stream.ended.Add(1)
		}
	}
}
