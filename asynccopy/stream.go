package asynccopy

// This file has Stream: the order of its work, and what it remembers of work not seen complete.
//
// The driver keeps the work that was issued in order. What this package adds is work that is issued bit by
// bit, from goroutines of its own: copies of pageable memory (stage.go). Such a stage takes its turn: it
// starts when the stage before it has issued all it has, and calls that issue a copy or record an event
// later wait, on the host, for the same of the last stage. So a stream is FIFO whatever is in it. What only
// makes the stream wait for others need not be in turn: that makes stages which are not done wait too, for
// work that can't depend on them.

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pintensor/pin/internal/driver"
)

// Stream is a queue of work on a device: what is issued to one runs in the order of issue, and
// different streams run concurrently. All methods may be called from any goroutine.
type Stream struct {
	dev      *Device
	handle   driver.Stream
	shared   bool // Device.Default's: only the device closes it
	gate     gate
	exists   gate          // of calls that only need handle to exist: while Close awaits the calls in gate, it does
	gone     chan struct{} // closed when Close has done its work
	borrowed bool          // handle is other code's to destroy
	turn     atomic.Pointer[stage]
	clock    atomic.Int64 // advances with each event that was recorded
	seen     atomic.Int64 // events that had advanced it to here are complete
	asked    atomic.Int64 // when a flight was last found incomplete, since epoch
	waits    waits
	ended    atomic.Int64 // foreign uses on it that Tensor.EndUse ended

	mu      sync.Mutex
	pending []*Event // not known to be complete, in order of issue
}

// NewStream returns a new stream. Close it; closing the device does so too.
func (d *Device) NewStream() (*Stream, error) { return d.newStream("NewStream", 0) }

// NewStreamWithPriority is NewStream with a priority: lower numbers are more urgent, 0 is normal, as in PyTorch and
// CUDA. Of work that could run on a GPU, kernels of urgent streams run first; copies are in no such order. CUDA's
// devices know 0 to -5, and take the nearest for other numbers. The software device knows none.
func (d *Device) NewStreamWithPriority(priority int) (*Stream, error) {
	return d.newStream("NewStreamWithPriority", priority)
}

func (d *Device) newStream(call string, priority int) (*Stream, error) {
	if d.missing() {
		return nil, d.errNoDevice(call)
	}
	if !d.gate.enter() {
		return nil, d.closedError(call)
	}
	defer d.gate.leave()
	if err := d.failure(); err != nil {
		return nil, err
	}
	h, err := d.drv.NewStream(priority)
	if err != nil {
		return nil, d.fail(err)
	}
	s := &Stream{dev: d, handle: h, gone: make(chan struct{})}
	d.mu.Lock()
	closing := d.closing
	if !closing {
		d.streams[s] = struct{}{}
	}
	d.mu.Unlock()
	if closing {
		d.destroy(h)
		return nil, d.closedError(call)
	}
	return s, nil
}

// Default returns a stream for programs that need only one. It is the same each time, made at first use, and
// closed with the device: its own Close does nothing. It is an ordinary stream, not CUDA's default stream, which
// waits for others.
func (d *Device) Default() (*Stream, error) {
	if d.missing() {
		return nil, d.errNoDevice("Default")
	}
	if s := d.dflt.Load(); s != nil {
		return s, nil
	}
	s, err := d.newStream("Default", 0)
	if err != nil {
		return nil, err
	}
	s.shared = true
	if !d.dflt.CompareAndSwap(nil, s) { // another goroutine has made it
		if err := s.close(); err != nil {
			return nil, err
		}
	}
	return d.dflt.Load(), nil
}

// Device returns the device that s belongs to, nil for a nil or zero Stream.
func (s *Stream) Device() *Device {
	if s == nil {
		return nil
	}
	return s.dev
}

// Handle returns the driver's handle, a CUstream on a CUDA device, for work that other code issues. It waits
// until copies of pageable memory that were started on s have been issued, so that work which is issued
// to the handle now comes after them; call it again after each such copy. 0 if s is closed.
func (s *Stream) Handle() uintptr {
	if s.missing() || !s.gate.enter() {
		return 0
	}
	defer s.gate.leave()
	s.awaitTurn()
	return uintptr(s.handle)
}

// Record returns an event that is complete when all work issued to s so far is.
func (s *Stream) Record() (*Event, error) {
	if err := s.enter("Record"); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	s.awaitTurn()
	return s.record()
}

// record is Record when it is s's turn.
func (s *Stream) record() (*Event, error) {
	e, err := s.newEvent()
	if err != nil {
		return nil, err
	}
	if err := s.dev.fail(s.dev.drv.Record(e.handle, s.handle)); err != nil {
		e.retire(err)
		return nil, err
	}
	e.recorded()
	s.track(e)
	return e, nil
}

// recordStaged records the event of a stage.
func (s *Stream) recordStaged(e *Event) error {
	e.before = s.clock.Load()
	err := s.dev.fail(s.dev.drv.Record(e.handle, s.handle))
	if err == nil {
		e.recorded()
	}
	return err
}

// Wait makes work issued to s from now on wait for e: on the device, not the host. If e is of a copy from
// or to pageable memory that is still under way, or of another device, s waits in a goroutine instead, and
// later calls on s follow it as they follow such a copy.
func (s *Stream) Wait(e *Event) error {
	if e == nil {
		return fmt.Errorf("asynccopy: Stream.Wait: e is nil")
	}
	if err := s.enter("Wait"); err != nil {
		return err
	}
	defer s.gate.leave()
	switch {
	case e.stream == nil:
		return nil
	case !s.dev.isNear(e.stream.dev):
		s.start(newStage(), false, nil, func(func()) error { return e.Wait(context.Background()) }, nil)
		return nil
	case !e.landed():
		s.start(newStage(), false, nil, func(func()) error {
			<-e.stage.landed
			return s.after(e)
		}, nil)
		return nil
	}
	return s.after(e)
}

// after makes later work on s wait for the device's part of e. It blocks until that was issued.
func (s *Stream) after(e *Event) error {
	if e == nil || e.stream == s {
		return nil
	}
	if e.stage != nil {
		<-e.stage.issued
	}
	if s.waits.include(e) {
		return nil
	}
	if other := e.stream.dev; other != s.dev {
		if !other.gate.enter() {
			return nil // its Close has awaited all work
		}
		defer other.gate.leave()
	}
	h, done := e.begin()
	if done {
		return nil
	}
	if h == 0 {
		e.end(false, nil)
		return e.sync()
	}
	err := s.dev.fail(s.dev.drv.WaitEvent(s.handle, h))
	if err == nil {
		s.waits.add(e)
	}
	e.end(false, nil)
	return err
}

// afterAll makes later work on s wait for all work that the driver was given for other so far, whoever
// issued it. It waits for nothing: not for other's stages, and not for its Close either, since the calls
// that two streams' Closes wait for could each be here.
func (s *Stream) afterAll(other *Stream) error {
	if other == s {
		return nil
	}
	if !other.exists.enter() {
		return nil // Close has seen it idle
	}
	defer other.exists.leave()
	h, err := other.dev.takeEvent()
	if err != nil {
		return err
	}
	defer other.dev.events.put(h)
	ended := other.ended.Load()
	if err := other.dev.drv.Record(h, other.handle); err != nil {
		return other.dev.fail(err)
	}
	if err := s.dev.fail(s.dev.drv.WaitEvent(s.handle, h)); err != nil {
		return err
	}
	s.waits.addAll(other, ended)
	return nil
}

// Synchronize returns when all work issued to s so far is complete, with the device's error if it failed.
// When ctx ends first it returns ctx's error; the work goes on.
func (s *Stream) Synchronize(ctx context.Context) error {
	if ctx == nil {
		return errNilContext("Synchronize")
	}
	if s.missing() {
		return s.errNoStream("Synchronize")
	}
	if !s.gate.enter() {
		return s.closedError("Synchronize")
	}
	defer s.gate.leave()
	before, tick := s.unfinished(), s.clock.Load()
	if last := s.turn.Load(); last != nil {
		if err := await(ctx, last.issued); err != nil {
			return err
		}
	}
	for _, e := range before {
		if e.landed() {
			continue
		}
		if err := await(ctx, e.stage.landed); err != nil {
			return err
		}
	}
	if err := s.sync(ctx); err != nil {
		return err
	}
	s.reached(tick)
	for _, e := range before {
		e.retire(nil)
	}
	return s.dev.failure()
}

// await returns when c is closed, or ctx's error if that ends first.
func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	default:
	}
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sync waits for the device's part of what was issued.
func (s *Stream) sync(ctx context.Context) error {
	if ctx.Done() == nil {
		return s.dev.fail(s.dev.drv.SyncStream(s.handle))
	}
	e, err := s.record()
	if err != nil {
		return err
	}
	return e.poll(ctx)
}

// Close waits until the work issued to s is complete and releases s. Tensors made on s stay. Closing again,
// or after the device was closed, or the stream of Device.Default, does nothing and returns nil.
func (s *Stream) Close() error {
	if s.missing() {
		return s.errNoStream("Close")
	}
	if s.shared {
		return nil
	}
	return s.close()
}

func (s *Stream) close() error {
	if !s.gate.shut() {
		<-s.gone
		return nil
	}
	defer close(s.gone)
	d := s.dev
	err := d.fail(d.drv.SyncStream(s.handle))
	for _, e := range s.unfinished() {
		switch {
		case err == nil:
			e.retire(nil)
		case sticky(err):
			e.retire(err)
		default:
			if e.sync() != nil {
				d.mu.Lock()
				d.unsure = append(d.unsure, e)
				d.mu.Unlock()
			}
		}
	}
	if d.memory != nil {
		d.postpone(d.memory.leave(s, err == nil))
	}
	s.exists.shut()
	if !s.borrowed {
		d.destroy(s.handle)
	}
	d.mu.Lock()
	delete(d.streams, s)
	d.mu.Unlock()
	return err
}

// abandon settles e after issuing its work failed with err, when part of the work may have been issued:
// what that uses may be touched again only when the stream is seen idle. It returns err. The caller lists
// e.
func (s *Stream) abandon(e *Event, err error) error {
	idle := s.dev.fail(s.dev.drv.SyncStream(s.handle))
	if idle == nil || sticky(idle) {
		e.retire(err)
		return err
	}
	s.dev.postpone(idle)
	e.lose()
	return err
}

// enter admits a call. One that issues work which has to follow the stages before it calls awaitTurn then.
func (s *Stream) enter(call string) error {
	if s.missing() {
		return s.errNoStream(call)
	}
	if !s.gate.enter() {
		return s.closedError(call)
	}
	if err := s.dev.failure(); err != nil {
		s.gate.leave()
		return err
	}
	return nil
}

// missing reports whether s is nil, or the zero Stream, which no Device made.
func (s *Stream) missing() bool { return s == nil || s.dev == nil }

// errNoStream is the error of a call on such a one.
func (s *Stream) errNoStream(call string) error {
	if s == nil {
		return fmt.Errorf("asynccopy: %s: the stream is nil", call)
	}
	return fmt.Errorf("asynccopy: %s: the stream is a zero Stream, want one of Device.NewStream", call)
}

func (s *Stream) closedError(call string) error {
	return fmt.Errorf("asynccopy: %s: the stream is %w", call, ErrClosed)
}

// awaitTurn returns when every stage started on s so far has been issued.
func (s *Stream) awaitTurn() {
	if last := s.turn.Load(); last != nil {
		<-last.issued
	}
}
