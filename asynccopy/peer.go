package asynccopy

// This file has copies from one tensor to another, on one device or two.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/pintensor"
)

// Copy copies x, which may be on another device, to a new Tensor on the device of s. With nonBlocking the copy goes on
// when Copy returns, and x may be released, or written to on any stream, at once: that comes after the copy.
// Without, the copy is complete.
//
// Between two CUDA devices that can reach each other's memory the copy is direct, over NVLink or PCIe. Otherwise,
// and between devices of different kinds, it goes through page-locked memory of the host: then Copy waits for x,
// and returns when x was read.
func (s *Stream) Copy(x *Tensor, nonBlocking bool) (*Tensor, error) {
	y, e, err := s.copyTensor(x)
	if err != nil {
		return nil, named("Copy", err)
	}
	if !nonBlocking {
		if err := e.Wait(context.Background()); err != nil {
			s.dev.postpone(y.Release())
			return nil, err
		}
	}
	return y, nil
}

// CopyInto copies x into dst, which is on the device of s and has the same shape and dtype, as Copy does. The copy
// waits, on the device, for everything that uses dst. dst and x may be parts of the same memory, but not overlap.
//
// After an error that the driver gave, the contents of dst are undefined.
func (s *Stream) CopyInto(dst, x *Tensor, nonBlocking bool) error {
	e, err := s.copyTensorInto(dst, x)
	if err != nil {
		return named("CopyInto", err)
	}
	if !nonBlocking {
		return e.Wait(context.Background())
	}
	return nil
}

func (s *Stream) copyTensor(x *Tensor) (*Tensor, *Event, error) {
	if x == nil || x.buf == nil {
		return nil, nil, errors.New("the tensor is nil, or a zero Tensor")
	}
	if err := s.enter("Copy"); err != nil {
		return nil, nil, err
	}
	defer s.gate.leave()
	y, err := s.empty(x.dtype, x.shape())
	if err != nil {
		return nil, nil, err
	}
	e, err := s.transfer(y, x)
	if err != nil {
		s.dev.postpone(y.Release())
		return nil, nil, err
	}
	return y, e, nil
}

func (s *Stream) copyTensorInto(dst, x *Tensor) (*Event, error) {
	if err := dst.check(s, "CopyInto"); err != nil {
		return nil, err
	}
	switch {
	case x == nil || x.buf == nil:
		return nil, errors.New("x is nil")
	case dst.dtype != x.dtype:
		return nil, fmt.Errorf("dst is of %v, x of %v: want the same dtype", dst.dtype, x.dtype)
	case !slices.Equal(dst.shape(), x.shape()):
		return nil, fmt.Errorf("dst has shape %v, x %v: want the same shape", dst.Shape(), x.Shape())
	case dst.buf == x.buf && dst.ptr < x.ptr+driver.DevicePtr(x.size) && x.ptr < dst.ptr+driver.DevicePtr(dst.size):
		return nil, errors.New("dst and x overlap")
	}
	if err := s.enter("CopyInto"); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	return s.transfer(dst, x)
}

// transfer issues the copy. The caller is inside the gate of s.
func (s *Stream) transfer(dst, x *Tensor) (*Event, error) {
	from := x.buf.dev
	if from == s.dev {
		return s.transferDirect(dst, x, func(a access, done driver.Event) error {
			return s.dev.drv.CopyDtoD(a.ptr, x.ptr, x.size, s.handle, done)
		})
	}
	if !from.gate.enter() { // while a call is inside, the device is not closed
		return nil, fmt.Errorf("x is on %v, which is %w", from, ErrClosed)
	}
	defer from.gate.leave()
	direct, err := s.dev.reaches(from)
	if err != nil {
		return nil, err
	}
	if !direct {
		return s.relay(dst, x)
	}
	return s.transferDirect(dst, x, func(a access, done driver.Event) error {
		return s.dev.drv.CopyPeer(a.ptr, x.ptr, from.drv.Peer(), x.size, s.handle, done)
	})
}

func (s *Stream) transferDirect(dst, x *Tensor, call func(a access, done driver.Event) error) (*Event, error) {
	read, err := x.begin(s, false)
	if err != nil {
		return nil, err
	}
	defer read.end()
	write, err := dst.begin(s, true)
	if err != nil {
		return nil, err
	}
	defer write.end()
	s.dev.counts.onDevice.add(x.size, false)
	e, err := s.copy(write, pintensor.Hold{}, func(done driver.Event) error { return call(write, done) })
	if err != nil {
		return nil, err
	}
	read.publish(e)
	return e, nil
}

// isNear reports whether d's streams can wait for the events of other.
func (d *Device) isNear(other *Device) bool {
	return d == other || d.origin != nil && d.origin == other.origin
}

// reaches reports whether d can copy from the memory of other by itself. It asks once.
func (d *Device) reaches(other *Device) (bool, error) {
	if !d.isNear(other) {
		return false, nil
	}
	d.mu.Lock()
	direct, asked := d.reach[other]
	d.mu.Unlock()
	if asked {
		return direct, nil
	}
	direct, err := other.drv.Share(d.drv.Peer())
	if err != nil {
		return false, d.fail(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reach == nil {
		d.reach = make(map[*Device]bool)
	}
	d.reach[other] = direct
	return direct, nil
}

// awaitElsewhere waits for the work of other devices that uses b, which no call does any more.
func (b *buffer) awaitElsewhere() {
	b.mu.Lock()
	uses := append([]use(nil), b.uses...)
	b.mu.Unlock()
	for _, u := range uses {
		if u.stream.dev != b.dev && !u.foreign {
			_ = u.last.Wait(context.Background()) // failed or not, it is over then, and its own device tells
		}
	}
}
