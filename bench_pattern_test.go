package pin_test

// This file measures the ways to bring a batch to the device, for docs/when-to-pin.md.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// feeder has what the patterns use: a batch in ordinary memory, the same page-locked, and two page-locked buffers.
type feeder struct {
	s             *asynccopy.Stream
	batch, pinned *tensor.Dense
	buffers       [2]*tensor.Dense
	step          int
}

// patterns are what a program may do with each batch; a result is the batch on the device. Where a copy is not waited
// for, the benchmark waits for the one before: two are under way at a time, as in a training loop.
var patterns = []struct {
	name  string
	bring func(f *feeder) (*asynccopy.Tensor, error)
}{
	{"pageable", func(f *feeder) (*asynccopy.Tensor, error) { return f.s.ToDevice(f.batch, false) }},
	{"pageable-nonblocking", func(f *feeder) (*asynccopy.Tensor, error) { return f.s.ToDevice(f.batch, true) }},
	{"pin-each", func(f *feeder) (*asynccopy.Tensor, error) { return f.pinEach(false) }},
	{"pin-each-nonblocking", func(f *feeder) (*asynccopy.Tensor, error) { return f.pinEach(true) }},
	{"pinned-buffer", func(f *feeder) (*asynccopy.Tensor, error) { return f.refill(f.buffers[0], false) }},
	{"pinned-buffer-nonblocking", func(f *feeder) (*asynccopy.Tensor, error) {
		f.step++
		return f.refill(f.buffers[f.step%2], true)
	}},
	{"pinned", func(f *feeder) (*asynccopy.Tensor, error) { return f.s.ToDevice(f.pinned, false) }},
	{"pinned-nonblocking", func(f *feeder) (*asynccopy.Tensor, error) { return f.s.ToDevice(f.pinned, true) }},
}

// pinEach is PyTorch's x.pin_memory().to(device), and with nonBlocking nanoGPT's line.
func (f *feeder) pinEach(nonBlocking bool) (*asynccopy.Tensor, error) {
	p, err := pintensor.Pin(f.batch)
	if err != nil {
		return nil, err
	}
	x, err := f.s.ToDevice(p, nonBlocking)
	return x, errors.Join(err, pintensor.Release(p)) // the copy holds the memory until it is complete
}

// refill copies the batch into a page-locked buffer that is there, and that to the device.
func (f *feeder) refill(buffer *tensor.Dense, nonBlocking bool) (*asynccopy.Tensor, error) {
	if err := pintensor.PinInto(buffer, f.batch); err != nil {
		return nil, err
	}
	return f.s.ToDevice(buffer, nonBlocking)
}

// BenchmarkPattern brings one batch after the other to the device, in the ways that docs/when-to-pin.md compares.
func BenchmarkPattern(b *testing.B) {
	dev := device(b)
	for _, pattern := range patterns {
		for _, size := range sizes {
			if size.bytes > 16<<20 && !dev.IsCUDA() {
				continue // a machine without a GPU may not have the memory
			}
			b.Run(fmt.Sprintf("pattern=%s/size=%s", pattern.name, size.name), func(b *testing.B) {
				f := &feeder{s: stream(b, dev), batch: filled(b, size.bytes, false), pinned: filled(b, size.bytes, true)}
				f.buffers = [2]*tensor.Dense{filled(b, size.bytes, true), filled(b, size.bytes, true)}
				var before *asynccopy.Tensor
				arrived := func(x *asynccopy.Tensor) error {
					if x == nil {
						return nil
					}
					return errors.Join(x.Wait(context.Background()), x.Release())
				}
				next := func() {
					x, err := pattern.bring(f)
					if err := errors.Join(err, arrived(before)); err != nil {
						b.Fatal(err)
					}
					before = x
				}
				next() // page-locks what is locked once
				next()
				b.SetBytes(int64(size.bytes))
				b.ReportAllocs()
				for b.Loop() {
					next()
				}
				if err := arrived(before); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
