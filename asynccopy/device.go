package asynccopy

// This file has Device: opening and closing.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/pintensor"
)

// Device is a GPU, or the software device. All methods may be called from any goroutine.
type Device struct {
	drv     driver.Device
	origin  driver.Driver // whose devices' events d's streams can wait for, nil if unknown
	ordinal int
	cuda    bool
	memory  *memory
	own     *Stream                  // frees what was made on a stream that is closed
	dflt    atomic.Pointer[Stream]   // Default's
	engine  func() *pintensor.Engine // lends what copies need on the host
	gate    gate
	gone    chan struct{}         // closed when Close has done its work
	dead    atomic.Pointer[error] // the sticky error
	trace   *Trace
	staging staging

	events handles

	hasPostponed, hasLimbo atomic.Bool

	mu        sync.Mutex
	closing   bool // no new streams
	postponed []error
	streams   map[*Stream]struct{}
	reach     map[*Device]bool // devices that were asked whether d can reach their memory
	unsure    []*Event         // of closed streams; the driver could not say whether they are complete
	zombies   []driver.Stream  // could not be destroyed
	live      *buffer
	young     young
	limbo     []*buffer // to be freed at the next occasion: dropped tensors, and what could not be freed
	counts    counts
}

// OpenDriver returns the device with the given ordinal of drv. It is for tests in this module, and for the
// Open functions.
func OpenDriver(drv driver.Driver, ordinal int, opts ...Option) (*Device, error) {
	o, err := apply("OpenDriver", opts)
	if err != nil {
		return nil, err
	}
	return open(drv, ordinal, o)
}

func open(drv driver.Driver, ordinal int, o options) (*Device, error) {
	n, err := drv.Devices()
	if err != nil {
		return nil, fmt.Errorf("asynccopy: %w", err)
	}
	if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("asynccopy: ordinal is %d, there are %d devices: %w", ordinal, n, ErrUnavailable)
	}
	dev, err := drv.Open(ordinal)
	if err != nil {
		return nil, fmt.Errorf("asynccopy: %w", err)
	}
	d, err := newDevice(dev, ordinal, drv.Host().Name() == "cuda", o)
	if err != nil {
		return nil, err
	}
	d.origin = drv
	return d, nil
}

// newDevice makes a Device of a driver's, which it closes if it fails.
func newDevice(dev driver.Device, ordinal int, cuda bool, o options) (*Device, error) {
	if o.trace != nil {
		t, err := traceDevice(o.trace, dev, fmt.Sprintf("device %d (%s)", ordinal, dev.Name()))
		if err != nil {
			return nil, err
		}
		dev = t
	}
	d := &Device{
		drv: dev, ordinal: ordinal, cuda: cuda, trace: o.trace, staging: o.staging,
		engine: pintensor.Default, gone: make(chan struct{}),
		streams: make(map[*Stream]struct{}),
	}
	if err := d.start(o); err != nil {
		return nil, errors.Join(err, d.fail(d.retry(dev.Close)))
	}
	return d, nil
}

// start makes the device's own stream and finds out how its memory is allocated.
func (d *Device) start(o options) error {
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	d.own = s
	if d.memory, err = newMemory(d, o.limit); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// Name returns the device's name, such as "NVIDIA H200", or "no device" of a nil or zero Device.
func (d *Device) Name() string {
	if d.missing() {
		return "no device"
	}
	return d.drv.Name()
}

// missing reports whether d is nil, or the zero Device, which no Open function returned.
func (d *Device) missing() bool { return d == nil || d.drv == nil }

// errNoDevice is the error of a call on such a one.
func (d *Device) errNoDevice(call string) error {
	if d == nil {
		return fmt.Errorf("asynccopy: %s: the device is nil", call)
	}
	return fmt.Errorf("asynccopy: %s: the device is a zero Device, want one of Open, OpenSoft or OpenDefault", call)
}

// IsCUDA reports whether d is a CUDA device, and not the software device.
func (d *Device) IsCUDA() bool { return d != nil && d.cuda }

// MemInfo returns the free and the total memory of the device in bytes. On a GPU that others use too, free
// changes at any time. Memory in the driver's pool may not count as free.
func (d *Device) MemInfo() (free, total int64, err error) {
	if d.missing() {
		return 0, 0, d.errNoDevice("MemInfo")
	}
	if !d.gate.enter() {
		return 0, 0, d.closedError("MemInfo")
	}
	defer d.gate.leave()
	free, total, err = d.drv.MemInfo()
	return free, total, d.fail(err)
}

// Synchronize returns when all work issued to d so far is complete, on every stream, with the device's error if it
// failed. When ctx ends first it returns ctx's error; the work goes on.
func (d *Device) Synchronize(ctx context.Context) error {
	if d.missing() {
		return d.errNoDevice("Synchronize")
	}
	if ctx == nil {
		return errNilContext("Synchronize")
	}
	if !d.gate.enter() {
		return d.closedError("Synchronize")
	}
	defer d.gate.leave()
	var errs []error
	for _, s := range d.all() {
		if err := s.Synchronize(ctx); !errors.Is(err, ErrClosed) { // a stream that was closed is complete
			errs = append(errs, err)
		}
	}
	if err := ctx.Err(); err != nil && distinct(errs) != nil {
		return err
	}
	return distinct(append(errs, d.failure()))
}

// all returns the streams that are open.
func (d *Device) all() []*Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.streams))
}

// Close waits until all work on the device is complete, then closes its streams, frees its memory, and
// releases the device. Calls in progress are awaited; later ones return ErrClosed. Tensors that are still
// there lose their memory; releasing those remains allowed. Close returns what went wrong, errors that no
// earlier call could return included. Closing again does nothing and returns nil.
func (d *Device) Close() error {
	if d.missing() {
		return d.errNoDevice("Close")
	}
	d.mu.Lock()
	first := !d.closing
	d.closing = true
	var streams []*Stream
	for s := range d.streams {
		if s != d.own {
			streams = append(streams, s)
		}
	}
	d.mu.Unlock()
	if !first {
		<-d.gone
		return nil
	}
	defer close(d.gone)
	var errs []error
	for _, s := range streams {
		errs = append(errs, s.close())
	}
	d.gate.shut()
	errs = append(errs, d.freeAll(), d.memory.close(), d.own.Close(), d.release())
	return distinct(errs)
}

// release gives the driver's objects back, and settles what can't be known any more.
func (d *Device) release() error {
	var errs []error
	for _, h := range d.zombies {
		errs = append(errs, d.fail(d.drv.DestroyStream(h)))
	}
	for _, e := range d.unsure {
		e.give(e.handle)
		e.handle = 0
	}
	for h := d.events.take(); h != 0; h = d.events.take() {
		errs = append(errs, d.fail(d.retry(func() error { return d.drv.DestroyEvent(h) })))
	}
	errs = append(errs, d.fail(d.retry(d.drv.Close)))
	errs = append(errs, d.postponed...)
	for _, e := range d.unsure {
		e.retire(errLost) // the context has gone, and the work with it
	}
	d.postponed, d.unsure, d.zombies = nil, nil, nil
	return distinct(errs)
}

// retry calls a function that releases something once more if it fails: there is nobody later to do it.
func (d *Device) retry(call func() error) error {
	err := call()
	if err != nil && !sticky(err) {
		d.postpone(d.fail(err))
		err = call()
	}
	return err
}

// destroy gives a driver's stream back.
func (d *Device) destroy(h driver.Stream) {
	if err := d.drv.DestroyStream(h); err != nil {
		d.postpone(d.fail(err))
		if sticky(err) {
			return // the stream has gone with the context
		}
		d.mu.Lock()
		d.zombies = append(d.zombies, h)
		d.mu.Unlock()
	}
}

func (d *Device) closedError(call string) error {
	return fmt.Errorf("asynccopy: %s: the device is %w", call, ErrClosed)
}

// awaitAll waits for all work on streams that are open, stages included.
func (d *Device) awaitAll() error {
	var errs []error
	for _, s := range d.all() {
		if s.gate.enter() {
			for _, e := range s.unfinished() {
				if e.stage != nil {
					<-e.stage.landed
				}
			}
			errs = append(errs, s.sync(context.Background()))
			s.gate.leave()
		}
	}
	return errors.Join(errs...)
}
