package asynccopy

// This file has what belongs to other code: its contexts, streams and memory, as devices, streams and tensors that
// never destroy or free it.

import (
	"errors"
	"sync"

	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// guests are the Devices in contexts that other code made. A context has one, or its streams and tensors would not
// mix.
type guests struct {
	mu    sync.Mutex
	byCtx map[uintptr]*guest
}

// guest is a Device that is there, or about to be.
type guest struct {
	ready chan struct{} // closed when the rest is set
	dev   *Device
	err   error
}

// device returns the Device in a context. open adopts the context if there is none.
func (g *guests) device(ctx uintptr, open func() (*Device, error)) (*Device, error) {
	for {
		at, first := g.enter(ctx)
		if first {
			at.dev, at.err = open()
			close(at.ready)
			if at.err != nil {
				g.leave(ctx, at)
			}
			return at.dev, at.err
		}
		<-at.ready
		if at.err == nil && !at.dev.isClosing() {
			return at.dev, nil
		}
		if at.err == nil {
			<-at.dev.gone // what it has in the context goes before the next comes
		}
		g.leave(ctx, at)
	}
}

func (g *guests) enter(ctx uintptr) (at *guest, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.byCtx[ctx]; at != nil {
		return at, false
	}
	if g.byCtx == nil {
		g.byCtx = make(map[uintptr]*guest)
	}
	at = &guest{ready: make(chan struct{})}
	g.byCtx[ctx] = at
	return at, true
}

func (g *guests) leave(ctx uintptr, at *guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byCtx[ctx] == at {
		delete(g.byCtx, ctx)
	}
}

func (d *Device) isClosing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing
}

// borrow returns a Stream on a driver's stream that other code made and will destroy. One stream has one Stream, as
// order is kept per Stream.
func (d *Device) borrow(h driver.Stream) (*Stream, error) {
	if !d.gate.enter() {
		return nil, d.closedError("borrow")
	}
	defer d.gate.leave()
	if err := d.failure(); err != nil {
		return nil, err
	}
	for {
		s, leaving := d.lookUp(h)
		switch {
		case s == nil:
			return nil, d.closedError("borrow")
		case leaving == nil:
			return s, nil
		}
		<-leaving
	}
}

// lookUp returns the Stream of a handle, a new one if there is none, nil while the device closes. leaving is what to
// wait for first if the Stream that is there is being closed.
func (d *Device) lookUp(h driver.Stream) (s *Stream, leaving <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return nil, nil
	}
	for s := range d.streams {
		if s.handle != h {
			continue
		}
		if s.gate.enter() {
			s.gate.leave()
			return s, nil
		}
		return s, s.gone
	}
	s = &Stream{dev: d, handle: h, borrowed: true, gone: make(chan struct{})}
	d.streams[s] = struct{}{}
	return s, nil
}

// guestTensor returns a Tensor on memory that other code allocated and will free: its buffer has no memory of its
// own to give back.
func (s *Stream) guestTensor(p driver.DevicePtr, dt tensor.Dtype, shape []int) (*Tensor, error) {
	if err := checkDtype(dt); err != nil {
		return nil, err
	}
	n, err := byteSize(dt, shape)
	if err != nil {
		return nil, err
	}
	if p == 0 && n > 0 {
		return nil, errors.New("the address is 0")
	}
	b := &buffer{dev: s.dev, size: n, home: s, handles: 1}
	x := newTensor(b, p, n, dt, shape)
	s.dev.add(b)
	s.dev.watch(x)
	return x, nil
}

// mark records an event of other code, and await makes later work on s wait for one, on the device.
func (s *Stream) mark(e driver.Event) error {
	return s.Issue("record", func(dev driver.Device, stream driver.Stream) error { return dev.Record(e, stream) })
}

func (s *Stream) await(e driver.Event) error {
	return s.Issue("wait", func(dev driver.Device, stream driver.Stream) error { return dev.WaitEvent(stream, e) })
}
