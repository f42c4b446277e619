package asynccopy_test

// This file tests how copies of pageable memory are staged: the option, and many at once.

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

func TestStagingOption(t *testing.T) {
	const n = 300 << 10
	for _, goroutines := range []int{0, 1, 3, 64} {
		for _, chunk := range []int{0, 4096, 5000, 1 << 20} {
			calls := drivertest.NewFaulty(soft.New(soft.Config{Host: locking{}}))
			r := newRig(t, calls, asynccopy.WithStaging(goroutines, chunk))
			s := r.stream()
			src := tensor.New(tensor.Of(tensor.Complex128), tensor.WithShape(n/160, 10))
			pattern(src, 1)
			r.ok(src.T())
			x := must(s.ToDevice(src, true))(t)
			into := tensor.New(tensor.Of(tensor.Complex128), tensor.WithShape(10, n/160))
			must(s.ToHostInto(into, x, false))(t)
			if !bytes.Equal(into.Raw, elements(src)) {
				t.Errorf("%d goroutines, chunks of %d bytes: others came back", goroutines, chunk)
			}
			size := len(into.Raw)
			if in := (chunk + 15) / 16 * 16; chunk > 0 && calls.Calls("CopyHtoD") != (size+in-1)/in {
				t.Errorf("%d goroutines, chunks of %d bytes: %d copies of %d bytes", goroutines, chunk, calls.Calls("CopyHtoD"), size)
			}
			r.ok(x.Release())
		}
	}
	for _, c := range []struct {
		goroutines, chunk int
		words             []string
	}{
		{-1, 0, []string{"goroutines is -1"}}, {65, 0, []string{"goroutines is 65"}}, {0, 1, []string{"chunkBytes is 1,"}},
		{0, 2 << 30, []string{"chunkBytes is 2147483648"}},
	} {
		_, err := asynccopy.OpenSoft(asynccopy.WithStaging(c.goroutines, c.chunk))
		refused(t, fmt.Sprint(c), err, append(c.words, "WithStaging", "OpenSoft")...)
	}
}

// TestManyStagedCopiesAtOnce: they share the host's memory and wait for none of each other's, however little there is.
func TestManyStagedCopiesAtOnce(t *testing.T) {
	for _, limit := range []int64{0, 1 << 20} {
		onEach(t, func(r *rig) {
			engine := r.engine
			if limit > 0 {
				engine = must(pintensor.NewEngine(pintensor.WithDriver(r.drv.Host()), pintensor.WithLimit(limit)))(r)
				r.dev.SetEngine(engine)
			}
			streams := []*asynccopy.Stream{r.stream(), r.stream(), r.stream()}
			var all sync.WaitGroup
			for g := range 12 {
				all.Go(func() {
					n := asynccopy.Smallest + 1000*g
					s := streams[g%len(streams)]
					x, err := s.ToDevice(pageable(n, uint64(g)), g%2 == 0)
					if err != nil {
						r.Error(err)
						return
					}
					into := pageable(n, 99)
					if _, err := streams[(g+1)%len(streams)].ToHostInto(into, x, false); err != nil || !holdsPattern(into.Raw, uint64(g)) {
						r.Errorf("copy %d: %v, or it brought something else", g, err)
					}
					if err := x.Release(); err != nil {
						r.Error(err)
					}
				})
			}
			all.Wait()
			r.ok(r.dev.Synchronize(r.Context()))
			if limit > 0 {
				if st := engine.Stats(); st.Lent.Current != 0 {
					r.Errorf("%d bytes of chunks are still lent", st.Lent.Current)
				}
				r.dev.SetEngine(r.engine)
				r.ok(engine.Close())
			}
		})
	}
}
