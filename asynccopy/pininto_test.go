package asynccopy_test

// This file tests that pinned memory is filled again without hurting the copies that use it.

import (
	"bytes"
	"context"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"gorgonia.org/tensor"
)

// Two buffers in turn, which PinInto fills while copies of them are in flight: each copy has what its buffer held when
// it was issued.
func TestPinIntoBetweenCopies(t *testing.T) {
	for name, side := range map[string]int{"at once": 100, "staged": 1 + isqrt(asynccopy.Smallest)} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				s, n := r.stream(), side*side
				square := func(d *tensor.Dense) *tensor.Dense { r.ok(d.Reshape(side, side)); return d }
				buffers := [2]*tensor.Dense{square(r.pinned(n, 0)), square(r.pinned(n, 0))}
				turned := func(d *tensor.Dense) *tensor.Dense {
					v := must(d.Slice(nil, nil))(r).(*tensor.Dense)
					r.ok(v.T())
					return v
				}
				var straight, across []*asynccopy.Tensor
				for i := range uint64(6) {
					buf := buffers[i%2]
					r.ok(r.engine.PinInto(buf, square(pageable(n, i))))
					straight = append(straight, must(s.ToDevice(buf, true))(r))
					across = append(across, must(s.ToDevice(turned(buf), true))(r)) // gathered, some of it later
				}
				for i := range uint64(6) {
					r.holds(s, straight[i], i)
					host := must(must(s.ToHost(across[i], false))(r).Wait(context.Background()))(r)
					want := must(r.engine.Pin(turned(square(pageable(n, i)))))(r)
					if !bytes.Equal(host.Raw, want.Raw) {
						r.Errorf("copy %d of the transposed buffer has not what that held", i)
					}
					r.release(host)
					r.release(want)
				}
				// A copy to the host is over before.
				for i := range uint64(6) {
					must(s.ToHostInto(buffers[0], straight[i], true))(r)
					r.ok(r.engine.PinInto(buffers[0], square(pageable(n, 50+i))))
					r.ok(s.Synchronize(context.Background()))
					r.is(buffers[0], 50+i)
				}
				for i := range straight {
					r.ok(straight[i].Release())
					r.ok(across[i].Release())
				}
				r.release(buffers[0])
				r.release(buffers[1])
			})
		})
	}
}

// isqrt returns the largest number whose square is at most n.
func isqrt(n int) (root int) {
	for (root+1)*(root+1) <= n {
		root++
	}
	return root
}
