package dataloader

// This file tests Batch.Use.

import (
	"strings"
	"testing"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
)

// Use is one wait on the device for all fields, and keeps the batch's memory from being overwritten before what uses it.
func TestUseOfABatch(t *testing.T) {
	e := newEngine(t)
	faulty := drivertest.NewFaulty(drivertest.Checked(t, soft.New(soft.Config{Late: true})))
	dev := openDriver(t, faulty)
	compute := newStream(t, dev)
	var last *Batch
	const samples, size = 400, 4
	for _, workers := range []int{1, 4} {
		l := newLoader(t, counting(samples), Config{BatchSize: size, Prefetch: 3 * workers, Workers: workers, Stream: newStream(t, dev), SingleEpoch: true, Pin: e})
		got, err := e.New(tensor.Int64, samples)
		if err != nil {
			t.Fatal(err)
		}
		waits := faulty.Calls("WaitEvent")
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			before := faulty.Calls("WaitEvent")
			if err := b.Use(compute); err != nil {
				t.Fatal(err)
			}
			if got := faulty.Calls("WaitEvent") - before; got > 2 { // one, and one of a copy that a worker issues meanwhile
				t.Errorf("%d waits for a batch", got)
			}
			// Other code's work, which the package does not see, and which the device puts off as long as it may.
			err := compute.Issue("read", func(d driver.Device, s driver.Stream) error {
				return d.CopyDtoH(unsafe.Pointer(&got.Int64s()[b.Index*size]), driver.DevicePtr(b.Device(1).DevicePtr()), size*8, s, 0)
			})
			if err != nil {
				t.Fatal(err)
			}
			last = b
		}
		if err := compute.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, v := range got.Int64s() {
			if v != int64(i) {
				t.Fatalf("%d workers: sample %d of what was read on the device is %d", workers, i, v)
			}
		}
		if got := faulty.Calls("WaitEvent") - waits; got > 2*samples/size {
			t.Errorf("%d waits for %d batches: want one of compute for a batch at most, and one for compute", got, samples/size)
		}
		if err := e.Release(got); err != nil {
			t.Fatal(err)
		}
	}
	mustPanic(t, "Use", func() { last.Use(compute) })
	onHost := newLoader(t, counting(4), Config{BatchSize: 4, Pin: e})
	for b := range onHost.Batches(t.Context()) {
		mustPanic(t, "Use", func() { b.Use(compute) })
	}
	other := newLoader(t, counting(4), Config{BatchSize: 4, Stream: newStream(t, dev), Pin: e})
	for b := range other.Batches(t.Context()) {
		if err := b.Use(nil); err == nil || !strings.Contains(err.Error(), "batch 0 of epoch 0") {
			t.Errorf("Use(nil): %v", err)
		}
	}
}
