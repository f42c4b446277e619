package asynccopy_test

// This file tests calls from many goroutines at once.

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"golang.org/x/sync/errgroup"
	"gorgonia.org/tensor"
)

// TestGoroutinesShareStreams: field report ucx PR#9581. Goroutines change threads, and share streams and
// tensors.
func TestGoroutinesShareStreams(t *testing.T) {
	onEach(t, func(r *rig) {
		streams := []*asynccopy.Stream{r.stream(), r.stream(), r.stream()}
		shared := must(streams[0].ToDevice(pageable(10000, 1), true))(r)
		var g errgroup.Group
		for i := range 64 {
			g.Go(func() error {
				rng := rand.New(rand.NewPCG(uint64(i), 0))
				for range 8 {
					if err := turn(r, rng, streams, shared); err != nil {
						return err
					}
					runtime.Gosched()
				}
				return nil
			})
		}
		r.ok(g.Wait())
		r.ok(shared.Release())
	})
}

// turn copies something in and out on streams chosen at random.
func turn(r *rig, rng *rand.Rand, streams []*asynccopy.Stream, shared *asynccopy.Tensor) error {
	pick := func() *asynccopy.Stream { return streams[rng.IntN(len(streams))] }
	n := []int{10, 10000, 400 << 10}[rng.IntN(3)]
	src := pageable(n, 1)
	if rng.IntN(2) == 0 {
		p, err := r.engine.Pin(src)
		if err != nil {
			return err
		}
		defer r.engine.Release(p)
		src = p
	}
	x, err := pick().ToDevice(src, true)
	if err != nil {
		return err
	}
	for _, x := range []*asynccopy.Tensor{x, shared} {
		down, err := pick().ToHost(x, rng.IntN(2) == 0)
		if err != nil {
			return err
		}
		host, err := down.Wait(context.Background())
		if err != nil {
			return err
		}
		if !holdsPattern(host.Raw, 1) {
			return errors.New("the contents are wrong")
		}
		if err := r.engine.Release(host); err != nil {
			return err
		}
	}
	if e, err := pick().Record(); err != nil {
		return err
	} else if err := pick().Wait(e); err != nil {
		return err
	}
	return x.Release()
}

// TestCloseDuringCalls closes streams and the device while others use them: every call either works or says
// ErrClosed.
func TestCloseDuringCalls(t *testing.T) {
	onEach(t, func(r *rig) {
		for range 5 {
			s, other := r.stream(), r.stream()
			x := must(other.ToDevice(pageable(1000, 1), true))(r)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for {
						err := work(s, other, x, i)
						if errors.Is(err, asynccopy.ErrClosed) {
							return
						}
						if err != nil {
							r.Error(err)
							return
						}
					}
				})
			}
			runtime.Gosched()
			r.ok(s.Close())
			wg.Wait()
			r.ok(x.Release())
		}
		s, other := r.stream(), r.stream()
		x := must(other.ToDevice(pageable(1000, 1), true))(r)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for {
					err := work(s, other, x, i)
					if errors.Is(err, asynccopy.ErrClosed) {
						return
					}
					if err != nil {
						r.Error(err)
						return
					}
				}
			})
		}
		runtime.Gosched()
		r.ok(r.dev.Close())
		wg.Wait()
	})
}

func work(s, other *asynccopy.Stream, x *asynccopy.Tensor, kind int) error {
	ctx := context.Background()
	switch kind {
	case 0:
		return x.Use(s)
	case 1:
		return s.ToDeviceInto(x, pageable(1000, 2), true)
	case 2:
		y, err := s.ToDevice(pageable(600<<10, 2), true)
		if err != nil {
			return err
		}
		return y.Release()
	case 3:
		return s.Synchronize(ctx)
	case 4:
		e, err := s.Record()
		if err != nil {
			return err
		}
		return e.Wait(ctx)
	case 5:
		e, err := s.ToHostInto(pageable(1000, 3), x, true)
		if err != nil {
			return err
		}
		return e.Wait(ctx)
	case 6:
		e, err := other.Record()
		if err != nil {
			return err
		}
		return s.Wait(e)
	}
	y, err := s.Empty(tensor.Float32, 3)
	if err != nil {
		return err
	}
	return y.Release()
}
