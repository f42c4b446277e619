package asynccopy

// This file has copies from the device to the host.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// Download is a copy to the host that may still be under way.
type Download struct {
	ready  *Event
	engine *pintensor.Engine

	mu   sync.Mutex
	host *tensor.Dense // nil after a failure
}

// ToHost copies x to the host, into page-locked memory that pintensor.Default lends. With nonBlocking the
// copy goes on when ToHost returns. Without, it is complete, and Download.Wait returns at once.
func (s *Stream) ToHost(x *Tensor, nonBlocking bool) (*Download, error) {
	d, err := s.toHost(x)
	if err != nil {
		return nil, named("ToHost", err)
	}
	if !nonBlocking {
		if _, err := d.Wait(context.Background()); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (s *Stream) toHost(x *Tensor) (*Download, error) {
	if err := x.check(s, "ToHost"); err != nil {
		return nil, err
	}
	if err := s.enter("ToHost"); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	a, err := x.begin(s, false)
	if err != nil {
		return nil, err
	}
	defer a.end()
	engine := s.dev.engine()
	host, err := engine.Empty(x.dtype, x.shape()...)
	if err != nil {
		return nil, err
	}
	e, err := s.copyToPinned(a, host, engine)
	if err != nil {
		return nil, errors.Join(err, engine.Release(host))
	}
	s.dev.counts.toHost.add(a.size, false)
	return &Download{ready: e, engine: engine, host: host}, nil
}

// copyToPinned issues the copy into memory that the engine has just lent.
func (s *Stream) copyToPinned(a access, host *tensor.Dense, engine *pintensor.Engine) (*Event, error) {
	if err := engine.AllowDrop(host); err != nil { // its owner may leave it to the collector
		return nil, err
	}
	hold, err := pintensor.Acquire(host)
	if err != nil {
		return nil, err
	}
	return s.copyOut(a, host, hold)
}

// Ready returns the event of the copy.
func (d *Download) Ready() *Event {
	if d == nil || d.ready == nil {
		return new(Event)
	}
	return d.ready
}

// String says what is known of the copy without asking the driver.
func (d *Download) String() string {
	if d == nil || d.ready == nil {
		return "no download"
	}
	return "download, " + d.ready.String()
}

// Wait returns the copy when it is complete, the same Dense each time. It is the caller's, to Release to
// pintensor.Default() or to leave to the collector. When ctx ends first Wait returns its error; the copy
// goes on and Wait may be called again.
func (d *Download) Wait(ctx context.Context) (*tensor.Dense, error) {
	if d == nil || d.ready == nil {
		return nil, errors.New("asynccopy: Wait: the download is nil, or a zero Download, want one of ToHost")
	}
	if err := d.ready.Wait(ctx); err != nil {
		if done, failed := d.ready.Done(); done && failed != nil { // and not only ctx has ended
			err = errors.Join(err, d.giveUp())
		}
		return nil, err
	}
	return d.host, nil
}

// giveUp releases the memory of a copy that failed, once.
func (d *Download) giveUp() error {
	d.mu.Lock()
	host := d.host
	d.host = nil
	d.mu.Unlock()
	if host == nil {
		return nil
	}
	return d.engine.Release(host)
}

// ToHostInto copies x into dst, which has the same shape and dtype, no mask, and is contiguous and
// row-major. With nonBlocking the copy goes on when ToHostInto returns, and dst must not be read or written
// until the event is complete. Without, the event is complete.
//
// Into page-locked memory the device copies by itself. Into other memory goroutines copy from page-locked
// chunks; later calls on s then wait on the host until the last chunk was issued: for copies larger than 8
// MiB a core, until most of it is done.
func (s *Stream) ToHostInto(dst *tensor.Dense, x *Tensor, nonBlocking bool) (*Event, error) {
	e, err := s.toHostInto(dst, x, !nonBlocking)
	if err != nil {
		return nil, named("ToHostInto", err)
	}
	if !nonBlocking {
		if err := e.Wait(context.Background()); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (s *Stream) toHostInto(dst *tensor.Dense, x *Tensor, waits bool) (*Event, error) {
	if err := x.check(s, "ToHostInto"); err != nil {
		return nil, err
	}
	layout, err := layoutOf(dst)
	if err != nil {
		return nil, fmt.Errorf("dst: %w", err)
	}
	if err := match(x, "the tensor", dst, "dst"); err != nil {
		return nil, err
	}
	if !layout.Contiguous() {
		return nil, fmt.Errorf("dst: its strides are %v for shape %v, want contiguous row-major memory", dst.Strides(), dst.Shape())
	}
	if err := s.enter("ToHostInto"); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	a, err := x.begin(s, false)
	if err != nil {
		return nil, err
	}
	hold, err := pintensor.Acquire(dst)
	if err != nil {
		a.end()
		return nil, fmt.Errorf("dst: %w", err)
	}
	direct := a.size == 0 || hold.Pinned()
	s.dev.counts.toHost.add(a.size, !direct)
	if !direct {
		return s.stageOut(a, dst, hold, waits)
	}
	defer a.end()
	return s.copyOut(a, dst, hold)
}

// copyOut issues one copy.
func (s *Stream) copyOut(a access, dst *tensor.Dense, hold pintensor.Hold) (*Event, error) {
	e, err := s.copy(a, hold, func(done driver.Event) error {
		return s.dev.drv.CopyDtoH(unsafe.Pointer(unsafe.SliceData(dst.Raw)), a.ptr, a.size, s.handle, done)
	})
	runtime.KeepAlive(dst)
	return e, err
}

// stageOut starts a copy through chunks.
func (s *Stream) stageOut(a access, dst *tensor.Dense, hold pintensor.Hold, waits bool) (*Event, error) {
	e, err := s.newEvent()
	if err != nil {
		hold.Done()
		a.end()
		return nil, err
	}
	e.stage = newStage()
	c := newChunked(s, e, int(a.size), 1, a.ptr)
	c.dst = dst.Raw[:a.size]
	list := func() {
		s.track(e)
		a.publish(e)
	}
	s.start(e.stage, waits, list, func(issued func()) error {
		c.issued = func() error {
			err := s.recordStaged(e)
			issued()
			return err
		}
		err := c.run((*chunked).drain)
		hold.Done()
		if err == nil {
			e.retire(nil)
		}
		return c.settle(err)
	}, a.end)
	return e, nil
}
