package asynccopy_test

// This file tests parts of one memory that several streams write at the same time.

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// fill issues a memset of x to s, as other code would.
func (r *rig) fill(s *asynccopy.Stream, x *asynccopy.Tensor, value byte) {
	r.Helper()
	r.ok(s.Issue("fill", func(dev driver.Device, stream driver.Stream) error {
		return dev.Memset(driver.DevicePtr(x.DevicePtr()), value, int64(x.MemSize()), stream, 0)
	}))
}

// filled fails the test unless every byte of x has the value, to who reads it on s.
func (r *rig) filled(s *asynccopy.Stream, x *asynccopy.Tensor, value byte) {
	r.Helper()
	if got := r.bytesOf(s, x); !bytes.Equal(got, bytes.Repeat([]byte{value}, len(got))) {
		r.Errorf("bytes from %d to %d, want %d", slices.Min(got), slices.Max(got), value)
	}
}

// parts returns a tensor of parts of n bytes each.
func (r *rig) parts(s *asynccopy.Stream, count, n int) (x *asynccopy.Tensor, parts []*asynccopy.Tensor) {
	r.Helper()
	x = must(s.Empty(tensor.Uint8, count*n))(r)
	for i := range count {
		parts = append(parts, must(x.Part(int64(i*n), tensor.Uint8, n))(r))
	}
	return x, parts
}

// What work on two streams has written to two parts is there for whoever reads either, however their ends lie.
func TestPartsWrittenOnTwoStreams(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 4096
		one, two, out := r.stream(), r.stream(), r.stream()
		x, p := r.parts(one, 2, n)
		for round := range byte(5) {
			r.ok(errors.Join(p[0].Use(one), p[1].Use(two)))
			r.fill(one, p[0], 2*round+1)
			r.fill(two, p[1], 2*round+2)
			r.ok(errors.Join(p[0].Used(one), p[1].Used(two)))
			if round%2 == 0 { // a copy on the first stream does not hide what was written on it
				r.filled(one, p[0], 2*round+1)
			}
			r.filled(out, p[0], 2*round+1)
			r.filled(out, p[1], 2*round+2)
		}
		r.ok(errors.Join(x.Release(), p[0].Release(), p[1].Release()))
	})
}

// Goroutines that fill the parts of one tensor each on a stream of its own are in no order, and all that they have
// written is there afterwards.
func TestPartsWrittenAtTheSameTime(t *testing.T) {
	onEach(t, func(r *rig) {
		const n, parts = 64 << 10, 4
		var streams []*asynccopy.Stream
		for range parts {
			streams = append(streams, r.stream())
		}
		out := r.stream()
		x, p := r.parts(out, parts, n)
		for round := range 30 {
			var g sync.WaitGroup
			begin := make(chan struct{})
			for i := range parts {
				host := r.pinned(n, uint64(round+i))
				g.Go(func() {
					<-begin
					if err := streams[i].ToDeviceInto(p[i], host, true); err != nil {
						r.Error(err)
					}
					r.release(host)
				})
			}
			close(begin)
			g.Wait()
			r.ok(x.Wait(context.Background()))
			for i := range parts {
				r.holds(out, p[i], uint64(round+i))
			}
		}
		for _, y := range append(p, x) {
			r.ok(y.Release())
		}
	})
}

// Two streams may use the same parts at the same time.
func TestPartsUsedOnTwoStreams(t *testing.T) {
	onEach(t, func(r *rig) {
		one, two := r.stream(), r.stream()
		x, p := r.parts(one, 2, 256)
		for range 3 {
			r.ok(errors.Join(p[0].Use(one), p[1].Use(one), p[0].Use(two), p[1].Use(two)))
			r.ok(errors.Join(p[0].Used(one), p[0].Used(two), p[1].Used(one), p[1].Used(two)))
			r.ok(errors.Join(p[0].Use(one), p[1].Use(one), p[0].Use(two), p[1].Use(two)))
			r.ok(errors.Join(p[0].Used(two), p[1].Used(two), p[0].Used(one), p[1].Used(one)))
			for i := range p {
				if p[i].Used(one) == nil || p[i].Used(two) == nil {
					r.Errorf("part %d: Used without Use is no error", i)
				}
			}
		}
		r.ok(errors.Join(x.Release(), p[0].Release(), p[1].Release()))
	})
}

// Goroutines with a part each: whatever the others copy, and on whatever streams, each finds what it has written.
func TestPartsOfManyGoroutines(t *testing.T) {
	onEach(t, func(r *rig) {
		const n, parts, steps = 2048, 4, 60
		streams := []*asynccopy.Stream{r.stream(), r.stream(), r.stream()}
		x, p := r.parts(streams[0], parts, n)
		var g sync.WaitGroup
		for i := range parts {
			other := must(streams[i%3].Empty(tensor.Uint8, n))(r)
			g.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				for step := range steps {
					seed := uint64(step*parts + i)
					write, read := streams[random.IntN(3)], streams[random.IntN(3)]
					var err error
					switch random.IntN(3) {
					case 0:
						err = write.ToDeviceInto(p[i], pageable(n, seed), true)
					case 1:
						host := r.pinned(n, seed)
						err = errors.Join(write.ToDeviceInto(p[i], host, true), r.engine.Release(host))
					default:
						err = errors.Join(write.ToDeviceInto(other, pageable(n, seed), true), read.CopyInto(p[i], other, true))
					}
					host := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(n))
					if err == nil {
						_, err = read.ToHostInto(host, p[i], false)
					}
					if err != nil || !holdsPattern(host.Raw, seed) {
						r.Errorf("part %d, step %d: %v, or not what was written", i, step, err)
						break
					}
				}
				if err := other.Release(); err != nil {
					r.Error(err)
				}
			})
		}
		g.Wait()
		for _, y := range append(p, x) {
			r.ok(y.Release())
		}
	})
}
