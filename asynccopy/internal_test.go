package asynccopy

// This file tests bookkeeping that shows outside only when goroutines meet in an unlikely way.

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

func softStreams(t *testing.T) (d *Device, a, b *Stream) {
	t.Helper()
	leak.Check(t)
	d, err := OpenSoft()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range []**Stream{&a, &b} {
		if *s, err = d.NewStream(); err != nil {
			t.Fatal(err)
		}
	}
	return d, a, b
}

// TestHandleStaysWhileInUse: an event that one goroutine sees complete while another is in a driver call on
// it.
func TestHandleStaysWhileInUse(t *testing.T) {
	d, a, _ := softStreams(t)
	e, err := a.Record()
	if err != nil {
		t.Fatal(err)
	}
	h, done := e.begin()
	if done || h == 0 {
		t.Fatalf("begin() = %#x, %v", h, done)
	}
	free := len(d.events.free)
	e.retire(nil)
	if len(d.events.free) != free {
		t.Error("the handle was given back while a call uses it")
	}
	e.end(false, nil)
	if len(d.events.free) != free+1 {
		t.Error("the handle was not given back after the call")
	}
	if _, done := e.begin(); !done {
		t.Error("a retired event can be used")
	}
}

// TestUseDuringAWrite: what is told of between the beginning and the end of a copy into a tensor was not
// waited for, so it must stay.
func TestUseDuringAWrite(t *testing.T) {
	_, a, b := softStreams(t)
	x, err := a.Empty(tensor.Uint8, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Use(b); err != nil {
		t.Fatal(err)
	}
	first, err := x.begin(a, true)
	if err != nil {
		t.Fatal(err)
	}
	second, err := x.begin(b, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Use(b); err != nil {
		t.Fatal(err)
	}
	e, err := a.Record()
	if err != nil {
		t.Fatal(err)
	}
	first.publish(e)
	if len(x.buf.uses) != 1 || !x.buf.uses[0].foreign || x.buf.uses[0].stream != b {
		t.Errorf("uses are %+v, want b's", x.buf.uses)
	}
	f, err := b.Record()
	if err != nil {
		t.Fatal(err)
	}
	second.publish(f)
	if x.buf.ready != f {
		t.Error("the last write is not the one published last")
	}
	found := false
	for _, u := range x.buf.uses {
		found = found || u.last == e
	}
	if !found {
		t.Errorf("uses are %+v: the other write is forgotten, so freeing would not follow it", x.buf.uses)
	}
	first.end()
	second.end()
	if err := x.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestStreamsCloseTogether has calls inside two streams that are being closed, each of which has to follow the
// other stream: neither may wait for the other's Close.
func TestStreamsCloseTogether(t *testing.T) {
	_, a, b := softStreams(t)
	x, y := used(t, a, b), used(t, b, a)
	for _, s := range []*Stream{a, b} {
		if !s.gate.enter() {
			t.Fatal("the stream is closed")
		}
	}
	closed := make(chan error, 2)
	for _, s := range []*Stream{a, b} {
		go func() { closed <- s.Close() }()
		for s.gate.enter() { // until Close is waiting for the call
			s.gate.leave()
		}
	}
	for s, tensor := range map[*Stream]*Tensor{a: x, b: y} {
		go func() {
			access, err := tensor.begin(s, true)
			if err != nil {
				t.Error(err)
			} else {
				access.end()
			}
			s.gate.leave()
		}()
	}
	for range 2 {
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the streams wait for each other")
		}
	}
	for _, x := range []*Tensor{x, y} {
		if err := x.Release(); err != nil {
			t.Error(err)
		}
	}
}

// used returns a tensor made on one stream that other code uses on another.
func used(t *testing.T, on, by *Stream) *Tensor {
	t.Helper()
	x, err := on.Empty(tensor.Uint8, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Use(by); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestFoundDroppedWhileReleased: a tensor that the collector found may have been released in a call that goes on.
func TestFoundDroppedWhileReleased(t *testing.T) {
	d, a, b := softStreams(t)
	x, err := a.Empty(tensor.Uint8, 10)
	if err != nil {
		t.Fatal(err)
	}
	buf := x.buf
	if err := x.Release(); err != nil {
		t.Fatal(err)
	}
	d.dropped(buf)
	// A tensor that was dropped in a call, which is the last to use it, is freed by that call alone.
	y, err := a.Empty(tensor.Uint8, 10)
	if err != nil {
		t.Fatal(err)
	}
	runtime.SetFinalizer(y, nil)
	call, err := y.begin(b, true)
	if err != nil {
		t.Fatal(err)
	}
	d.dropped(y.buf)
	call.end()
	for range 2 {
		z, err := a.Empty(tensor.Uint8, 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := z.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.failure(); err != nil {
		t.Error(err)
	}
	if s := d.Stats(); s.Tensors != 0 || s.Reclaimed != 1 {
		t.Errorf("%d tensors are left and %d were reclaimed, want 0 and 1", s.Tensors, s.Reclaimed)
	}
}

// TestWaitForALostEvent: an event that could not be recorded can't be asked for, but its stream can be awaited.
func TestWaitForALostEvent(t *testing.T) {
	_, a, _ := softStreams(t)
	e, err := a.newEvent()
	if err != nil {
		t.Fatal(err)
	}
	a.track(e)
	e.lose()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := e.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// TestFreeFollowsAClosingStream: memory that is given back while its stream is being closed is freed on another
// one, which must first follow the stream that the memory was allocated on.
func TestFreeFollowsAClosingStream(t *testing.T) {
	leak.Check(t)
	drv := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{})))
	d, err := OpenDriver(drv, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.Empty(tensor.Uint8, 10)
	if err != nil {
		t.Fatal(err)
	}
	if !a.gate.enter() {
		t.Fatal("the stream is closed")
	}
	closed := make(chan error)
	go func() { closed <- a.Close() }()
	for a.gate.enter() { // until Close is waiting for the call
		a.gate.leave()
	}
	before := drv.Calls("WaitEvent")
	if err := x.Release(); err != nil {
		t.Error(err)
	}
	if n := drv.Calls("WaitEvent") - before; n != 1 {
		t.Errorf("freeing waited for %d events, want 1", n)
	}
	a.gate.leave()
	for _, err := range []error{<-closed, d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestStageHasItsTurnBeforeItIsSeen: others may make their streams wait for an event as soon as they can get at
// it, and this stream for theirs; what they make must not come before the event's own stage.
func TestStageHasItsTurnBeforeItIsSeen(t *testing.T) {
	_, a, _ := softStreams(t)
	x, err := a.Empty(tensor.Uint8, 2*smallest)
	if err != nil {
		t.Fatal(err)
	}
	src := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(2*smallest))
	copied := make(chan error)
	a.mu.Lock() // which listing the event needs
	go func() { copied <- a.ToDeviceInto(x, src, false) }()
	for deadline := time.Now().Add(5 * time.Second); a.turn.Load() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the stage has no turn when its event is listed")
			break
		}
	}
	if x.Ready().stage != nil {
		t.Error("the event can be had before it is listed")
	}
	a.mu.Unlock()
	for _, err := range []error{<-copied, x.Release()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestConcurrentReadsOnAStream: of two reads that go on at once, the one issued last may be published first. Who
// writes or frees then must follow both.
func TestConcurrentReadsOnAStream(t *testing.T) {
	_, a, b := softStreams(t)
	x, err := a.Empty(tensor.Uint8, 10)
	if err != nil {
		t.Fatal(err)
	}
	uses := func() (events []*Event) {
		for _, u := range x.buf.uses {
			events = append(events, u.last)
		}
		return events
	}
	read := func() (access, *Event) {
		t.Helper()
		access, err := x.begin(b, false)
		if err != nil {
			t.Fatal(err)
		}
		e, err := b.Record()
		if err != nil {
			t.Fatal(err)
		}
		return access, e
	}
	first, e := read()
	second, f := read()
	second.publish(f)
	first.publish(e)
	if got := uses(); len(got) != 2 || got[0] != f || got[1] != e {
		t.Errorf("uses are %v, want both reads", got)
	}
	third, g := read()
	third.publish(g)
	if got := uses(); len(got) != 1 || got[0] != g {
		t.Errorf("uses are %v, want only the last read", got)
	}
	for _, a := range []access{first, second, third} {
		a.end()
	}
	if err := x.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestUsesAreForgotten: a tensor that lives long may be used on any number of streams.
func TestUsesAreForgotten(t *testing.T) {
	d, a, _ := softStreams(t)
	x, err := a.Empty(tensor.Uint8, 10)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		s, err := d.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		into := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(10))
		if _, err := s.ToHostInto(into, x, false); err != nil {
			t.Fatal(err)
		}
		if err := x.Use(s); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(x.buf.uses); n > 2 {
		t.Errorf("%d uses are remembered, all over", n)
	}
	if err := x.Release(); err != nil {
		t.Fatal(err)
	}
}

// lockNothing is a host that never runs into a limit.
type lockNothing struct{}

func (lockNothing) Name() string                         { return "cuda" }
func (lockNothing) Register(unsafe.Pointer, int64) error { return nil }
func (lockNothing) Unregister(unsafe.Pointer) error      { return nil }

// TestEngineErrorOfABorrowedChunk: what goes wrong with the memory that a copy borrows is no reason for the copy
// to fail, but somebody must know.
func TestEngineErrorOfABorrowedChunk(t *testing.T) {
	leak.Check(t)
	host := drivertest.NewFaultyHost(drivertest.CheckedHost(t, lockNothing{}))
	engine, err := pintensor.NewEngine(pintensor.WithDriver(host), pintensor.WithMaxCached(1)) // chunks are given up at once
	if err != nil {
		t.Fatal(err)
	}
	drv := drivertest.NewFaulty(soft.New(soft.Config{}))
	d, err := OpenDriver(drv, 0)
	if err != nil {
		t.Fatal(err)
	}
	d.SetEngine(engine)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Empty(tensor.Uint8, 100)
	if err != nil {
		t.Fatal(err)
	}
	src := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(100))
	refused := errors.New("unregister was refused")
	host.FailNth("Unregister", 1, refused)
	drv.FailNth("NewEvent", 1, nil) // then nothing uses the chunk, and it goes back within the call
	if err := s.ToDeviceInto(x, src, false); !errors.Is(err, drivertest.ErrInjected) {
		t.Fatalf("ToDeviceInto: %v, want the failure of NewEvent", err)
	}
	if _, err := s.ToDevice(src, false); !errors.Is(err, refused) {
		t.Errorf("the next call: %v, want the engine's failure", err)
	}
	for _, err := range []error{x.Release(), d.Close(), engine.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestWaitIsForAllWrites: two calls that write parts of one memory at the same time.
func TestWaitIsForAllWrites(t *testing.T) {
	d, a, b := softStreams(t)
	x, err := a.Empty(tensor.Uint8, 512)
	if err != nil {
		t.Fatal(err)
	}
	host := make([]byte, 256)
	write := func(s *Stream, off int) (publish func() *Event) {
		part, err := x.Part(int64(off), tensor.Uint8, 256)
		if err != nil {
			t.Fatal(err)
		}
		w, err := part.begin(s, true)
		if err != nil {
			t.Fatal(err)
		}
		return func() *Event {
			e, err := s.copyIn(w, unsafe.Pointer(&host[0]), 256, pintensor.Hold{})
			if err != nil {
				t.Fatal(err)
			}
			w.end()
			if err := part.Release(); err != nil {
				t.Error(err)
			}
			return e
		}
	}
	first, second := write(a, 0), write(b, 256)
	e1, e2 := first(), second()
	if x.Ready() != e2 {
		t.Error("Ready is not the write that was published last")
	}
	if got := x.buf.otherWrites(); len(got) != 1 || got[0] != e1 {
		t.Errorf("Wait is for %d other writes, want the first", len(got))
	}
	e1.retire(errLost)
	if err := x.Wait(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("Wait: %v, want the error of the first write", err)
	}
	if err := errors.Join(x.Release(), d.Synchronize(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestDevicePtrIsAfterAllStages: also those of writes into other parts at the same time.
func TestDevicePtrIsAfterAllStages(t *testing.T) {
	_, a, b := softStreams(t)
	x, err := a.Empty(tensor.Uint8, 512)
	if err != nil {
		t.Fatal(err)
	}
	staged, last := &Event{stream: a, stage: newStage()}, &Event{stream: b, done: true}
	x.buf.ready = last
	x.buf.used(use{stream: a, last: staged, write: true}, 0)
	got := make(chan uintptr)
	go func() { got <- x.DevicePtr() }()
	select {
	case <-got:
		t.Error("DevicePtr returned before the copy was issued")
	case <-time.After(10 * time.Millisecond):
		close(staged.stage.issued)
		if <-got == 0 {
			t.Error("DevicePtr is 0")
		}
	}
	x.buf.ready, x.buf.uses = nil, nil
	if err := x.Release(); err != nil {
		t.Error(err)
	}
}
