package asynccopy

// This file tests what belongs to other code. The other code is the test, which has a driver's device of its own on
// the device that a Device is on.

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// hosting is other code's device, and a Device beside it.
type hosting struct {
	*testing.T
	drv   driver.Driver
	other driver.Device
	dev   *Device
}

func newHosting(t *testing.T) *hosting {
	t.Helper()
	leak.Check(t)
	h := &hosting{T: t, drv: drivertest.Checked(t, soft.New(soft.Config{Host: lockNothing{}, Late: true}))}
	var err error
	h.other, err = h.drv.Open(0)
	h.ok(err)
	h.dev, err = h.open()
	h.ok(err)
	return h
}

func (h *hosting) open() (*Device, error) {
	dev, err := h.drv.Open(0)
	if err != nil {
		return nil, err
	}
	return newDevice(dev, 0, false, options{})
}

func (h *hosting) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// end closes everything; the driver's checks find what was given up that was not ours, or not given up.
func (h *hosting) end(streams ...driver.Stream) {
	h.Helper()
	h.ok(h.dev.Close())
	for _, s := range streams {
		h.ok(h.other.SyncStream(s))
		h.ok(h.other.DestroyStream(s))
	}
	h.ok(h.other.Close())
}

func TestBorrowedStream(t *testing.T) {
	h := newHosting(t)
	handle, err := h.other.NewStream(0)
	h.ok(err)
	s, err := h.dev.borrow(handle)
	h.ok(err)
	if again, err := h.dev.borrow(handle); again != s || err != nil {
		t.Errorf("borrowed again: %p, %v, want the same Stream %p", again, err, s)
	}
	if s.Handle() != uintptr(handle) || s.Device() != h.dev {
		t.Errorf("it has handle %#x and %v", s.Handle(), s.Device())
	}
	x, err := s.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2, 3})), true)
	h.ok(err)
	h.ok(h.other.Memset(driver.DevicePtr(x.DevicePtr()), 0, 4, driver.Stream(s.Handle()), 0)) // in the stream's order
	back := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3))
	_, err = s.ToHostInto(back, x, false)
	h.ok(err)
	if got := back.Float32s(); !slices.Equal(got, []float32{0, 2, 3}) {
		t.Errorf("got %v", got)
	}
	h.ok(x.Release())
	h.ok(s.Close())
	next, err := h.dev.borrow(handle)
	h.ok(err)
	if next == s {
		t.Error("a closed Stream was given again")
	}
	h.ok(next.Synchronize(context.Background()))
	h.end(handle) // the Device closes next, and leaves the handle
	if _, err := h.dev.borrow(handle); !errors.Is(err, ErrClosed) {
		t.Errorf("borrowed from a closed device: %v, want ErrClosed", err)
	}
}

// TestBorrowWaitsForClose: a stream whose Stream is being closed gets a new one, after that.
func TestBorrowWaitsForClose(t *testing.T) {
	h := newHosting(t)
	handle, err := h.other.NewStream(0)
	h.ok(err)
	goOn := make(chan struct{})
	m, err := h.other.LoadModule(driver.Image{Go: map[string]driver.Kernel{"stuck": func(driver.Memory, driver.Dim3, driver.Dim3, []uint64) error {
		<-goOn
		return nil
	}}})
	h.ok(err)
	f, err := h.other.Function(m, "stuck")
	h.ok(err)
	s, err := h.dev.borrow(handle)
	h.ok(err)
	h.ok(h.other.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, handle, nil))
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for s.gate.enter() { // until Close has begun; it waits for the kernel then
		s.gate.leave()
		runtime.Gosched()
	}
	go close(goOn)
	next, err := h.dev.borrow(handle)
	h.ok(err)
	if next == s {
		t.Error("got the Stream that is being closed")
	}
	h.ok(next.Synchronize(context.Background()))
	h.ok(<-closed)
	h.ok(h.other.UnloadModule(m))
	h.end(handle)
}

func TestGuestTensor(t *testing.T) {
	h := newHosting(t)
	handle, err := h.other.NewStream(0)
	h.ok(err)
	p, err := h.other.Alloc(16)
	h.ok(err)
	s, err := h.dev.borrow(handle)
	h.ok(err)
	x, err := s.guestTensor(p, tensor.Float32, []int{4})
	h.ok(err)
	if x.DevicePtr() != uintptr(p) || x.Size() != 4 {
		t.Errorf("%v at %#x, want 4 values at %#x", x, x.DevicePtr(), p)
	}
	own, err := h.dev.NewStream()
	h.ok(err)
	h.ok(h.other.Memset(p, 0xFF, 16, handle, 0))
	h.ok(own.ToDeviceInto(x, tensor.New(tensor.WithBacking([]float32{1, 2, 3, 4})), true)) // after the fill
	back := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(4))
	_, err = s.ToHostInto(back, x, false)
	h.ok(err)
	if got := back.Float32s(); !slices.Equal(got, []float32{1, 2, 3, 4}) {
		t.Errorf("got %v", got)
	}
	h.ok(x.Release())
	if err := x.Release(); !errors.Is(err, ErrReleased) {
		t.Errorf("released twice: %v", err)
	}
	for name, make := range map[string]func() (*Tensor, error){
		"no dtype":   func() (*Tensor, error) { return s.guestTensor(p, tensor.Dtype{}, []int{4}) },
		"no address": func() (*Tensor, error) { return s.guestTensor(0, tensor.Float32, []int{4}) },
		"bad shape":  func() (*Tensor, error) { return s.guestTensor(p, tensor.Float32, []int{-4}) },
	} {
		if x, err := make(); x != nil || err == nil {
			t.Errorf("%s: %v, %v, want an error", name, x, err)
		}
	}
	empty, err := s.guestTensor(0, tensor.Float32, []int{0})
	h.ok(err)
	h.ok(empty.Release())
	left, err := s.guestTensor(p, tensor.Float32, []int{4}) // when the device closes
	h.ok(err)
	h.ok(h.dev.Close())
	h.ok(left.Release())
	h.ok(h.other.Free(p)) // nobody else did
	h.end(handle)
}

func TestEventsOfOthers(t *testing.T) {
	h := newHosting(t)
	handle, err := h.other.NewStream(0)
	h.ok(err)
	e, err := h.other.NewEvent()
	h.ok(err)
	p, err := h.other.Alloc(4)
	h.ok(err)
	s, err := h.dev.NewStream()
	h.ok(err)
	x, err := s.guestTensor(p, tensor.Uint8, []int{4})
	h.ok(err)
	back := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(4))
	for round := range byte(3) {
		h.ok(h.other.Memset(p, round, 4, handle, e))
		h.ok(s.await(e)) // this stream after theirs
		arrived, err := s.ToHostInto(back, x, true)
		h.ok(err)
		h.ok(s.mark(e)) // and theirs after this
		h.ok(h.other.WaitEvent(handle, e))
		h.ok(h.other.SyncStream(handle))
		h.ok(arrived.Wait(context.Background())) // back is pageable, so the host has a part too
		if got := back.Uint8s(); !slices.Equal(got, []byte{round, round, round, round}) {
			t.Errorf("round %d: got %v", round, got)
		}
	}
	h.ok(x.Release())
	h.ok(h.dev.Close())
	h.ok(h.other.DestroyEvent(e))
	h.ok(h.other.Free(p))
	h.end(handle)
}

func TestContextHasOneDevice(t *testing.T) {
	h := newHosting(t)
	var g guests
	var opened atomic.Int32
	open := func() (*Device, error) { opened.Add(1); return h.open() }
	var all sync.WaitGroup
	var got [8]*Device
	for i := range got {
		all.Go(func() {
			d, err := g.device(7, open)
			if err != nil {
				t.Error(err)
			}
			got[i] = d
		})
	}
	all.Wait()
	first := got[0]
	if n := opened.Load(); n != 1 || slices.ContainsFunc(got[:], func(d *Device) bool { return d != first }) {
		t.Errorf("opened %d times: %v", n, got)
	}
	other, err := g.device(8, open)
	h.ok(err)
	if other == first {
		t.Error("two contexts have one device")
	}
	h.ok(first.Close())
	next, err := g.device(7, open)
	h.ok(err)
	if next == first {
		t.Error("a closed device was given again")
	}
	failed := errors.New("own")
	if d, err := g.device(9, func() (*Device, error) { return nil, failed }); d != nil || err != failed {
		t.Errorf("opening that fails: %v, %v", d, err)
	}
	again, err := g.device(9, open)
	h.ok(err)
	for _, d := range []*Device{other, next, again} {
		h.ok(d.Close())
	}
	h.end()
}
