package asynccopy_test

// This file tests what the copy of a small tensor costs: driver calls, and allocations.

import (
	"errors"
	"maps"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// hot are the calls of a loop that feeds a device with small tensors.
var hot = map[string]struct {
	call   func(s *asynccopy.Stream, x *asynccopy.Tensor, pinned *tensor.Dense) error
	allocs float64
}{
	"ToDeviceInto": {func(s *asynccopy.Stream, x *asynccopy.Tensor, pinned *tensor.Dense) error {
		return s.ToDeviceInto(x, pinned, true)
	}, 0},
	"ToDevice and Release": {func(s *asynccopy.Stream, _ *asynccopy.Tensor, pinned *tensor.Dense) error {
		x, err := s.ToDevice(pinned, true)
		if err != nil {
			return err
		}
		return x.Release()
	}, 2}, // the Tensor, and what streams know of its memory
}

// TestDriverCallsOfSmallCopies: a copy and its event are one call of a driver. Besides, the driver is asked now and
// then how far it has come, and nothing else.
func TestDriverCallsOfSmallCopies(t *testing.T) {
	const n = 200
	for name, h := range hot {
		for kind, drv := range map[string]driver.Driver{
			"soft":  soft.New(soft.Config{Host: locking{}}),
			"late":  soft.New(soft.Config{Host: locking{}, Late: true}),
			"plain": plain{soft.New(soft.Config{Host: locking{}})},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				faulty := drivertest.NewFaulty(drv)
				r := newRig(t, faulty)
				s, p := r.stream(), r.pinned(4096, 1)
				x := must(s.ToDevice(p, true))(t)
				run := func() {
					for range n {
						r.ok(h.call(s, x, p))
					}
				}
				run() // makes the events that are used again then
				r.ok(s.Synchronize(t.Context()))
				made := faulty.Calls("NewEvent")
				copies, queries, all := faulty.Calls("CopyHtoD"), faulty.Calls("Query"), faulty.Calls("")
				run()
				copies, queries, all = faulty.Calls("CopyHtoD")-copies, faulty.Calls("Query")-queries, faulty.Calls("")-all
				// A device that is behind needs more events, but no more than there are copies under way.
				if rest := all - copies - queries; copies != n || queries > n/4 || rest != faulty.Calls("NewEvent")-made {
					t.Errorf("%d copies made %d driver calls, %d of them copies and %d queries", n, all, copies, queries)
				}
				r.ok(x.Release())
				r.release(p)
			})
		}
	}
}

// escapes is set under the race detector.
var escapes bool

// TestAllocationsOfSmallCopies holds the paths to what they allocate.
func TestAllocationsOfSmallCopies(t *testing.T) {
	paths := maps.Clone(hot)
	ordinary := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(4096))
	gather := hot["ToDeviceInto"]
	gather.allocs = 1 // how to gather from it
	if escapes {
		gather.allocs++
	}
	gather.call = func(s *asynccopy.Stream, x *asynccopy.Tensor, _ *tensor.Dense) error {
		return s.ToDeviceInto(x, ordinary, true)
	}
	paths["ToDeviceInto, ordinary memory"] = gather
	for name, h := range paths {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			d := must(asynccopy.OpenDriver(soft.New(soft.Config{Late: true}), 0))(t) // the checks of a rig allocate
			engine := must(pintensor.NewEngine(pintensor.WithDriver(locking{})))(t)
			p := must(engine.New(tensor.Uint8, 4096))(t)
			s := must(d.NewStream())(t)
			x := must(s.ToDevice(p, true))(t)
			i := 0
			got := testing.AllocsPerRun(500, func() {
				err := h.call(s, x, p)
				if i++; i%32 == 0 { // or there would be ever more events
					err = errors.Join(err, s.Synchronize(t.Context()))
				}
				if err != nil {
					t.Error(err)
				}
			})
			if got > h.allocs {
				t.Errorf("%v allocations a call, want %v", got, h.allocs)
			}
			if err := errors.Join(x.Release(), d.Close(), engine.Release(p), engine.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
