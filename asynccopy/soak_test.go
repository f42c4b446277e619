package asynccopy_test

// This file has the soak test: 64 goroutines do everything with tensors of two devices, for as long as is asked for.
// `make soak` runs it for a minute; the tests, for a moment. Contents are checked all the time, and in the end that
// nothing is left.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

const soakers = 64

func TestSoak(t *testing.T) {
	lasts := 300 * time.Millisecond
	if s := os.Getenv("SOAK"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatalf("SOAK is %q, want a duration such as 60s: %v", s, err)
		}
	}
	const memory = 12 << 20 // so that it gives out now and then
	for name, c := range map[string]struct{ late, apart bool }{"direct": {}, "apart": {true, true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, soft.New(soft.Config{Host: locking{}, Devices: 2, Late: c.late, Apart: c.apart, Memory: memory}),
				asynccopy.WithDeviceLimit(memory/2))
			soak(r, r.second(r.drv, 1), lasts/2)
		})
	}
	if _, err := asynccopy.LoadCUDA(); err == nil && os.Getenv("SOAK") != "" {
		t.Run("cuda", func(t *testing.T) { // and a software device, which it can't reach
			r := newRig(t, cuda(t), asynccopy.WithDeviceLimit(memory))
			soak(r, r.second(drivertest.Checked(t, soft.New(soft.Config{Host: locking{}})), 0), lasts/2)
		})
	}
}

// soaker is what the goroutines share.
type soaker struct {
	*rig
	streams [2][6]*asynccopy.Stream
	rounds  atomic.Int64
	dropped atomic.Int64
	starved atomic.Int64 // rounds that ended for want of memory
}

func soak(r *rig, other *asynccopy.Device, lasts time.Duration) {
	s := &soaker{rig: r}
	for d, dev := range []*asynccopy.Device{r.dev, other} {
		s.streams[d][0] = must(dev.Default())(r)
		for i := 1; i < len(s.streams[d]); i++ {
			s.streams[d][i] = must(dev.NewStreamWithPriority(-i))(r)
		}
	}
	until := time.Now().Add(lasts)
	var all sync.WaitGroup
	for g := range soakers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			for seed := uint64(g) << 32; time.Now().Before(until); seed++ {
				err := s.round(rng, seed%97)
				switch {
				case errors.Is(err, asynccopy.ErrOutOfMemory):
					s.starved.Add(1)
				case err != nil:
					r.Errorf("goroutine %d: %v", g, err)
					return
				}
				s.rounds.Add(1)
				if rng.IntN(50) == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
	r.ok(errors.Join(r.dev.Synchronize(context.Background()), other.Synchronize(context.Background())))
	settle(r)
	r.Logf("%d rounds, %d short of memory, %d tensors dropped, %d reclaimed so far", s.rounds.Load(), s.starved.Load(), s.dropped.Load(),
		r.dev.Stats().Reclaimed+other.Stats().Reclaimed)
	if s.rounds.Load() < soakers {
		r.Errorf("%d rounds of %d goroutines", s.rounds.Load(), soakers)
	}
}

// round brings bytes to a device in some way, perhaps to the other, and back.
func (s *soaker) round(rng *rand.Rand, seed uint64) error {
	d := rng.IntN(2)
	in, out := s.streams[d][rng.IntN(6)], s.streams[d][rng.IntN(6)]
	n := []int{0, 1, 5000, 40 << 10, 300 << 10}[rng.IntN(5)]
	src := pageable(n, seed)
	if rng.IntN(2) == 0 {
		src = s.pinned(n, seed)
		defer s.engine.Release(src)
	}
	xs, err := s.bring(rng, in, src)
	defer func() { s.letGo(rng, xs) }()
	if err != nil {
		return err
	}
	x := xs[0]
	if rng.IntN(3) == 0 {
		out = s.streams[1-d][rng.IntN(6)]
		y, err := out.Copy(x, rng.IntN(2) == 0)
		if err != nil {
			return err
		}
		xs = append(xs, y)
		x = y
	}
	if rng.IntN(2) == 0 {
		into := pageable(n, seed+1)
		if _, err := out.ToHostInto(into, x, false); err != nil {
			return err
		}
		return check(into, seed)
	}
	down, err := out.ToHost(x, true)
	if err != nil {
		return err
	}
	host, err := down.Wait(context.Background())
	if err != nil {
		return err
	}
	return errors.Join(check(host, seed), s.engine.Release(host))
}

func check(got *tensor.Dense, seed uint64) error {
	if !holdsPattern(got.Raw, seed) {
		return fmt.Errorf("%d bytes of pattern %d came back as others", len(got.Raw), seed)
	}
	return nil
}

// bring makes tensors, the first of which has the contents of src.
func (s *soaker) bring(rng *rand.Rand, in *asynccopy.Stream, src *tensor.Dense) ([]*asynccopy.Tensor, error) {
	n := src.Shape()[0]
	switch rng.IntN(4) {
	case 0:
		return in.ToDeviceBatch([]*tensor.Dense{src, pageable(100, 1), src}, rng.IntN(2) == 0)
	case 1:
		whole, err := in.Empty(tensor.Uint8, n+512)
		if err != nil {
			return nil, err
		}
		part, err := whole.Part(256, tensor.Uint8, n)
		if err != nil {
			return []*asynccopy.Tensor{whole}, err
		}
		return []*asynccopy.Tensor{part, whole}, in.ToDeviceInto(part, src, true)
	}
	x, err := in.ToDevice(src, rng.IntN(2) == 0)
	if err != nil {
		return nil, err
	}
	return []*asynccopy.Tensor{x}, nil
}

// letGo releases most tensors, and drops the others.
func (s *soaker) letGo(rng *rand.Rand, xs []*asynccopy.Tensor) {
	for _, x := range xs {
		if rng.IntN(20) == 0 {
			s.dropped.Add(1)
			continue
		}
		if err := x.Release(); err != nil {
			s.Error(err)
		}
	}
}
