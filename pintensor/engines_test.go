package pintensor

// This file has several engines in one process, as libraries that pin memory each have their own.

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"gorgonia.org/tensor"
)

// Engines have the registry of addresses in common, and nothing else: goroutines that pin each engine's tensors with the
// other, give them back, also to the wrong one, and drop them, find their own data, and both engines end empty.
func TestTwoEnginesAtOnce(t *testing.T) {
	engines := []rig{newCarvingRig(t, WithLimit(8<<20)), newCarvingRig(t, WithLimit(8<<20), WithMaxCached(64<<10))}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(g)))
			for i := range 150 {
				own, other := engines[i%2], engines[(i+1)%2]
				d, err := own.New(tensor.Uint8, 1+r.IntN(40<<10))
				if err != nil {
					t.Error(err)
					return
				}
				tag := byte(g*31 + i)
				fillWith(d.Raw, tag)
				copied, err := other.Pin(d)
				if err != nil {
					t.Error(err)
					return
				}
				if err := other.Release(d); !errors.Is(err, ErrNotPinned) {
					t.Errorf("release by the other engine: %v, want ErrNotPinned", err)
				}
				if other.Owns(d) || !other.IsPinned(d) || own.Owns(copied) || !own.IsPinned(copied) {
					t.Error("an engine owns the other's memory, or does not know that it is pinned")
				}
				if err := own.Release(d); err != nil {
					t.Error(err)
				}
				for k, x := range copied.Raw {
					if x != tag {
						t.Errorf("byte %d of a copy is %d, want %d", k, x, tag)
						return
					}
				}
				if r.IntN(4) > 0 { // the others are dropped
					if err := other.Release(copied); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// What an engine lent is good after it was closed, and another may pin it.
func TestAClosedEnginesTensors(t *testing.T) {
	closed, open := newRig(t), newRig(t)
	d := must[*tensor.Dense](t)(closed.New(tensor.Uint8, 100))
	fillWith(d.Raw, 9)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	p := must[*tensor.Dense](t)(open.Pin(d))
	if p.Raw[99] != 9 || !open.IsPinned(d) {
		t.Errorf("byte 99 of the copy is %d, want 9; the original is pinned: %v", p.Raw[99], open.IsPinned(d))
	}
	if same := must[*tensor.Dense](t)(open.EnsurePinned(d)); same != d {
		t.Error("EnsurePinned copied what is pinned")
	}
	for e, x := range map[*Engine]*tensor.Dense{closed.Engine: d, open.Engine: p} {
		if err := e.Release(x); err != nil {
			t.Error(err)
		}
	}
}
