package asynccopy

// This file has copies from the host to the device.

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/strided"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// ToDevice copies t to the device, as a new Tensor of its shape and dtype.
//
// With nonBlocking the copy goes on when ToDevice returns, and t must not change until the Tensor's Wait;
// it may be dropped, and released to its pintensor.Engine, at once. Without, the copy is complete.
//
// t may have any layout. From contiguous page-locked memory the device copies by itself, at full speed.
// Everything else goes through page-locked chunks that goroutines fill: of up to 256 KiB before ToDevice
// returns, of more while it goes on. Later calls on s, and calls on other streams that use the Tensor, then
// wait on the host until the last chunk was issued: for as long as the host copies what fits into the
// chunks, 8 MiB a core, and beyond that for the device. t's dtype must hold no pointers, and t no mask.
func (s *Stream) ToDevice(t *tensor.Dense, nonBlocking bool) (*Tensor, error) {
	x, e, err := s.toDevice(t, !nonBlocking)
	if err != nil {
		return nil, named("ToDevice", err)
	}
	if !nonBlocking {
		if err := e.Wait(context.Background()); err != nil {
			s.dev.postpone(x.Release())
			return nil, err
		}
	}
	return x, nil
}

func (s *Stream) toDevice(t *tensor.Dense, waits bool) (*Tensor, *Event, error) {
	layout, err := layoutOf(t)
	if err != nil {
		return nil, nil, fmt.Errorf("t: %w", err)
	}
	if err := s.enter("ToDevice"); err != nil {
		return nil, nil, err
	}
	defer s.gate.leave()
	x, err := s.emptyOf(t.Dtype(), t.Shape()) // layoutOf has checked the dtype
	if err != nil {
		return nil, nil, err
	}
	e, err := s.upload(x, t, layout, waits)
	if err != nil {
		s.dev.postpone(x.Release())
		return nil, nil, err
	}
	return x, e, nil
}

// ToDeviceInto copies t into dst, which has the same shape and dtype, as ToDevice does. The copy waits, on
// the device, for everything that uses dst: copies on any stream, and what Use told of.
//
// After an error that the driver gave, the contents of dst are undefined.
func (s *Stream) ToDeviceInto(dst *Tensor, t *tensor.Dense, nonBlocking bool) error {
	e, err := s.toDeviceInto(dst, t, !nonBlocking)
	if err != nil {
		return named("ToDeviceInto", err)
	}
	if !nonBlocking {
		return e.Wait(context.Background())
	}
	return nil
}

func (s *Stream) toDeviceInto(dst *Tensor, t *tensor.Dense, waits bool) (*Event, error) {
	if err := dst.check(s, "ToDeviceInto"); err != nil {
		return nil, err
	}
	layout, err := layoutOf(t)
	if err != nil {
		return nil, fmt.Errorf("t: %w", err)
	}
	if err := match(dst, "dst", t, "t"); err != nil {
		return nil, err
	}
	if err := s.enter("ToDeviceInto"); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	return s.upload(dst, t, layout, waits)
}

// upload issues the copy of t into x, for a caller that waits for it or not. The caller is inside the gate.
func (s *Stream) upload(x *Tensor, t *tensor.Dense, layout strided.Layout, waits bool) (*Event, error) {
	a, err := x.begin(s, true)
	if err != nil {
		return nil, err
	}
	n := int64(layout.Size())
	hold, err := pintensor.Acquire(t)
	if err != nil {
		a.end()
		return nil, fmt.Errorf("t: %w", err)
	}
	byItself := direct(layout, hold)
	s.dev.counts.toDevice.add(n, !byItself)
	if byItself {
		defer a.end()
		return s.copyIn(a, unsafe.Pointer(unsafe.SliceData(t.Raw)), n, hold)
	}
	e, err := s.gatherIn(a, &held{layout, hold, s.dev.cuda && nonTemporalFrom <= n && n <= nonTemporalTo}, n, int(t.Dtype().Size()), waits)
	runtime.KeepAlive(t)
	return e, err
}

// source is host memory that a copy to the device gathers from, whole or in pieces at once. Done ends its use.
type source interface {
	Gather(dst []byte, off int)
	Done()
}

// held is a tensor as a source.
type held struct {
	strided.Layout
	pintensor.Hold
	nonTemporal bool // chunks are written past the caches
}

// Copies to a GPU of these sizes have their chunks written past the caches: 16 MiB arrive at 33 GB/s instead of 22. With less
// there is too little in a cache to hold the GPU up, with more the host's memory becomes the limit: 256 MiB would arrive
// at 44 GB/s instead of 46. (The software device reads the chunks on the host, where they had better be in a cache.)
const nonTemporalFrom, nonTemporalTo = 16 << 10, 64 << 20

func (h *held) Gather(dst []byte, off int) {
	if h.nonTemporal {
		h.GatherNonTemporal(dst, off)
	} else {
		h.Layout.Gather(dst, off)
	}
}

// gatherIn issues the copy of n > 0 bytes through chunks, which the source fills in pieces of whole elements. It ends
// the access and the source.
func (s *Stream) gatherIn(a access, src source, n int64, elem int, waits bool) (*Event, error) {
	if n > smallest {
		return s.stageIn(a, src, int(n), elem, waits)
	}
	defer a.end()
	chunk := s.dev.lend(n)
	src.Gather(chunk.raw, 0)
	src.Done()
	e, err := s.copyIn(a, unsafe.Pointer(&chunk.raw[0]), n, chunk.hold)
	s.dev.giveBack(chunk, e)
	return e, err
}

// copyIn issues one copy.
func (s *Stream) copyIn(a access, src unsafe.Pointer, n int64, hold pintensor.Hold) (*Event, error) {
	e, err := s.copy(a, hold, func(done driver.Event) error {
		return s.dev.drv.CopyHtoD(a.ptr, src, n, s.handle, done)
	})
	runtime.KeepAlive(src)
	return e, err
}

// copy issues a copy that the device makes by itself: one call, which records the event that it is given.
// It ends hold with it.
func (s *Stream) copy(a access, hold pintensor.Hold, call func(done driver.Event) error) (*Event, error) {
	s.awaitTurn()
	e, err := s.newEvent()
	if err != nil {
		hold.Done()
		return nil, err
	}
	err = s.dev.fail(call(e.handle))
	if err != nil {
		err = s.abandon(e, err)
	} else {
		e.recorded()
		a.publish(e)
	}
	s.track(e)
	hold.Until((*flight)(e))
	if err != nil {
		return nil, err
	}
	return e, nil
}

// stageIn starts a copy through chunks.
func (s *Stream) stageIn(a access, src source, size, elem int, waits bool) (*Event, error) {
	e, err := s.newEvent()
	if err != nil {
		src.Done()
		a.end()
		return nil, err
	}
	e.stage = newStage()
	c := newChunked(s, e, size, elem, a.ptr)
	c.src = src
	list := func() {
		s.track(e)
		a.publish(e)
	}
	s.start(e.stage, waits, list, func(func()) error {
		err := c.run((*chunked).fill)
		src.Done()
		if err == nil {
			err = s.recordStaged(e)
		}
		return c.settle(err)
	}, a.end)
	return e, nil
}
