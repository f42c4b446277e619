package asynccopy

// This file has the copy of many tensors into tensors that are there.

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/strided"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// ToDeviceBatchInto copies each tensor of ts into the one at its place in dst, as ToDeviceInto does. Those in pinned
// memory whose elements are contiguous share one event, recorded behind the last of them, so that whoever waits for
// several waits once; others have one each. Of tensors in dst that are the same, or share memory, a later one's copy follows
// an earlier one's.
//
// With nonBlocking the tensors in ts must not change until Wait of those in dst. After an error some may have been
// copied.
func (s *Stream) ToDeviceBatchInto(dst []*Tensor, ts []*tensor.Dense, nonBlocking bool) error {
	if len(dst) != len(ts) {
		return fmt.Errorf("asynccopy: ToDeviceBatchInto: dst has length %d, ts %d: want the same", len(dst), len(ts))
	}
	if err := s.toDeviceBatchInto(dst, ts, !nonBlocking); err != nil {
		return named("ToDeviceBatchInto", err)
	}
	if nonBlocking {
		return nil
	}
	var errs []error
	for _, x := range dst {
		if err := x.Wait(context.Background()); err != nil {
			errs = append(errs, err)
		}
	}
	return distinct(errs) // those with one event have one error
}

func (s *Stream) toDeviceBatchInto(dst []*Tensor, ts []*tensor.Dense, waits bool) error {
	if err := s.enter("ToDeviceBatchInto"); err != nil {
		return err
	}
	defer s.gate.leave()
	if len(ts) == 0 {
		return nil
	}
	c := convoys.Get().(*convoy)
	defer c.free()
	for i, t := range ts {
		if err := c.add(s, dst[i], t, i); err != nil {
			c.drop()
			return err
		}
	}
	if err := c.send(s); err != nil {
		return err
	}
	for _, other := range c.others {
		i := other.i
		layout, err := layoutOf(ts[i])
		if err != nil {
			return fmt.Errorf("ts[%d]: %w", i, err)
		}
		if _, err := s.upload(dst[i], ts[i], layout, waits); err != nil {
			return about(fmt.Sprintf("ts[%d]", i), err)
		}
	}
	return nil
}

// convoy is copies that share an event. It is used again: its slices have grown then.
type convoy struct {
	members []traveller
	others  []place // of tensors that go by themselves, after the members
}

// place is a tensor's in the lists, and the memory that it is copied into.
type place struct {
	i   int
	dst *buffer
}

// traveller is one copy.
type traveller struct {
	access
	hold pintensor.Hold
	src  unsafe.Pointer
}

var convoys = sync.Pool{New: func() any { return new(convoy) }}

func (c *convoy) free() {
	clear(c.members)
	clear(c.others)
	c.members, c.others = c.members[:0], c.others[:0]
	convoys.Put(c)
}

// add makes s wait for what the copy of t into x has to follow.
func (c *convoy) add(s *Stream, x *Tensor, t *tensor.Dense, i int) error {
	if err := x.misfit(s); err != nil {
		return fmt.Errorf("dst[%d]: %w", i, err)
	}
	layout, err := layoutOf(t)
	if err != nil {
		return fmt.Errorf("ts[%d]: %w", i, err)
	}
	if err := match(x, "dst", t, "ts"); err != nil {
		return fmt.Errorf("at place %d: %w", i, err)
	}
	hold, err := pintensor.Acquire(t)
	if err != nil {
		return fmt.Errorf("ts[%d]: %w", i, err)
	}
	if !direct(layout, hold) || c.follows(x) {
		hold.Done()
		c.others = append(c.others, place{i, x.buf})
		return nil
	}
	a, err := x.begin(s, true)
	if err != nil {
		hold.Done()
		return about(fmt.Sprintf("dst[%d]", i), err)
	}
	c.members = append(c.members, traveller{a, hold, unsafe.Pointer(unsafe.SliceData(t.Raw))})
	return nil
}

// follows reports whether a tensor that goes by itself goes into the memory of x: what is copied there after it must go
// after it.
func (c *convoy) follows(x *Tensor) bool {
	return slices.ContainsFunc(c.others, func(p place) bool { return p.dst == x.buf })
}

// direct reports whether the device can copy by itself.
func direct(layout strided.Layout, hold pintensor.Hold) bool {
	return layout.Size() == 0 || layout.Contiguous() && hold.Pinned()
}

// drop ends what add has begun.
func (c *convoy) drop() {
	for i := range c.members {
		c.members[i].hold.Done()
		c.members[i].end()
	}
}

// send issues the copies, with an event behind the last.
func (c *convoy) send(s *Stream) error {
	if len(c.members) == 0 {
		return nil
	}
	s.awaitTurn()
	e, err := s.newEvent()
	if err != nil {
		c.drop()
		return err
	}
	for i := range c.members {
		m, done := &c.members[i], driver.Event(0)
		if i == len(c.members)-1 {
			done = e.handle
		}
		s.dev.counts.toDevice.add(m.size, false)
		if err = s.dev.fail(s.dev.drv.CopyHtoD(m.ptr, m.src, m.size, s.handle, done)); err != nil {
			err = s.abandon(e, err)
			break
		}
	}
	if err == nil {
		e.recorded()
		for i := range c.members {
			c.members[i].publish(e)
		}
	}
	s.track(e)
	for i := range c.members {
		m := &c.members[i]
		m.hold.Until((*flight)(e))
		runtime.KeepAlive(m.src)
		m.end()
	}
	return err
}
