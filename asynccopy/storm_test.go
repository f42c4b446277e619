package asynccopy_test

// This file tests everything at once: goroutines that copy, wait, drop and release on streams that come and go,
// while the collector runs. Nothing may hang, no contents may be wrong, and nothing may be left.

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pintensor/pin/asynccopy"
)

// storm is what the goroutines share.
type storm struct {
	*rig
	mu      sync.Mutex
	streams [3]*asynccopy.Stream
	event   *asynccopy.Event // the latest of anybody's
}

func TestStorm(t *testing.T) {
	onEach(t, func(r *rig) {
		st := &storm{rig: r}
		for i := range st.streams {
			st.streams[i] = r.stream()
		}
		var others, wg sync.WaitGroup
		stop := make(chan struct{})
		others.Go(func() {
			for rng := rand.New(rand.NewPCG(1, 2)); ; {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rng.IntN(3000)) * time.Microsecond):
				}
				runtime.GC()
				if err := st.replace(rng.IntN(len(st.streams))); err != nil {
					r.Error(err)
				}
			}
		})
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 3))
				for range 25 {
					if err := st.live(rng); err != nil && !errors.Is(err, asynccopy.ErrClosed) {
						r.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		others.Wait()
		for _, s := range st.streams {
			r.ok(s.Close())
		}
		settle(r)
	})
}

// replace puts a new stream in the place of one, which it closes.
func (st *storm) replace(i int) error {
	s, err := st.dev.NewStream()
	if err != nil {
		return err
	}
	st.mu.Lock()
	old := st.streams[i]
	st.streams[i] = s
	st.mu.Unlock()
	return old.Close()
}

func (st *storm) pick(rng *rand.Rand) *asynccopy.Stream {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.streams[rng.IntN(len(st.streams))]
}

// live makes a Tensor, uses it in some ways, and releases or drops it.
func (st *storm) live(rng *rand.Rand) error {
	n := []int{0, 10, 10000, 400 << 10, 900 << 10}[rng.IntN(5)]
	seed := rng.Uint64N(50)
	src := pageable(n, seed)
	if rng.IntN(2) == 0 {
		src = st.pinned(n, seed)
		if rng.IntN(2) == 0 {
			defer st.engine.Release(src)
		}
	}
	x, err := st.pick(rng).ToDevice(src, true)
	for range rng.IntN(5) {
		if err == nil {
			seed, err = st.use(rng, x, n, seed)
		}
	}
	if x != nil && rng.IntN(3) > 0 {
		err = errors.Join(err, x.Release())
	}
	return err
}

// use does one thing with x, and returns the pattern it has then.
func (st *storm) use(rng *rand.Rand, x *asynccopy.Tensor, n int, seed uint64) (uint64, error) {
	s := st.pick(rng)
	soon, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(300))*time.Microsecond)
	defer cancel()
	switch rng.IntN(6) {
	case 0:
		return seed, x.Use(s)
	case 1:
		e, err := s.ToHostInto(pageable(n, 0), x, true)
		st.mu.Lock()
		defer st.mu.Unlock()
		if err == nil {
			st.event = e
		}
		return seed, err
	case 2:
		down, err := s.ToHost(x, true)
		if err != nil {
			return seed, err
		}
		host, err := down.Wait(soon)
		if err != nil {
			host, err = down.Wait(context.Background())
		}
		if err != nil {
			return seed, err
		}
		if !holdsPattern(host.Raw, seed) {
			return seed, errors.New("the contents are wrong")
		}
		if rng.IntN(3) == 0 {
			return seed, nil
		}
		return seed, st.engine.Release(host)
	case 3:
		return seed + 50, s.ToDeviceInto(x, pageable(n, seed+50), true)
	case 4:
		st.mu.Lock()
		e := st.event
		st.mu.Unlock()
		if e == nil {
			return seed, nil
		}
		return seed, s.Wait(e)
	}
	if err := s.Synchronize(soon); err != nil && soon.Err() == nil {
		return seed, err
	}
	return seed, nil
}
