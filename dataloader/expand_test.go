package dataloader

// This file tests the end of a run while one of its workers gets memory for one slot more.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

// slowHost page-locks memory. For a call that the test wants slow it says that it begins, and ends when told how.
type slowHost struct {
	slow    chan bool
	entered chan struct{}
	result  chan error
}

func (h *slowHost) Name() string { return "slow" }
func (h *slowHost) Register(unsafe.Pointer, int64) error {
	select {
	case <-h.slow:
		h.entered <- struct{}{}
		return <-h.result
	default:
		return nil
	}
}
func (h *slowHost) Unregister(unsafe.Pointer) error { return nil }

// A slot whose memory comes, or is refused, when the run is over belongs to nobody else until then, and is not lost.
func TestRunEndsWhileASlotGetsMemory(t *testing.T) {
	for name, c := range map[string]struct {
		loops  bool // another loop runs before the memory comes
		result error
	}{
		"closed": {}, "closed, refused": {result: errors.New("refused")},
		"next loop": {loops: true}, "next loop, refused": {loops: true, result: errors.New("refused")},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			synctest.Test(t, func(t *testing.T) { endsWhileASlotGetsMemory(t, c.loops, c.result) })
		})
	}
}

func endsWhileASlotGetsMemory(t *testing.T, loops bool, result error) {
	h := &slowHost{slow: make(chan bool, 1), entered: make(chan struct{}), result: make(chan error)}
	e, err := pintensor.NewEngine(pintensor.WithDriver(h))
	if err != nil {
		t.Fatal(err)
	}
	ds := FromFunc(400, []Field{{Dtype: tensor.Uint8, Shape: tensor.Shape{64 << 10}}},
		func(context.Context, int, Row) error { return nil })
	l, err := New(ds, Config{BatchSize: 1, Workers: 1, Pin: e, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	loop := func(number int, do func()) {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Index == number {
				do()
				break // which waits a second for the worker
			}
		}
	}
	loop(5, func() {
		synctest.Wait() // all slots that the run began with have memory
		h.slow <- true
		l.tuner.change(l.run, setting{1, 8})
		<-h.entered
	})
	if loops {
		loop(20, func() { h.result <- result })
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if !loops {
		h.result <- result
	}
	synctest.Wait()
	if s := e.Stats(); s.Lent.Current != 0 || s.Forgotten != 0 {
		t.Errorf("%d bytes lent after Close, %d tensors forgotten", s.Lent.Current, s.Forgotten)
	}
	if s := l.Stats(); s.Slots != 0 || s.PinnedBytes != 0 {
		t.Errorf("the Loader says that it holds %d slots, %d bytes", s.Slots, s.PinnedBytes)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
