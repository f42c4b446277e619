package asynccopy_test

// This file has a device without memory.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

func TestOutOfMemory(t *testing.T) {
	for _, pool := range []bool{true, false} {
		t.Run(fmt.Sprintf("pool=%v", pool), func(t *testing.T) {
			const unit = 128 << 10 // memory is 16 of them
			var drv driver.Driver = soft.New(soft.Config{Host: locking{}, Memory: 16 * unit})
			if !pool {
				drv = plain{drv}
			}
			r := newRig(t, drv)
			a, b := r.stream(), r.stream()
			// Memory that work still uses, that is cached in other sizes, or that was dropped, is found.
			for i := range 40 {
				n := (5 + i%7) * unit
				x := must(a.Empty(tensor.Uint8, n))(t)
				r.ok(b.ToDeviceInto(x, pageable(n, 1), true))
				if i%3 > 0 {
					r.ok(x.Release())
				}
			}
			var held []*asynccopy.Tensor
			var err error
			for err == nil {
				var x *asynccopy.Tensor
				if x, err = a.Empty(tensor.Uint8, 3*unit); err == nil {
					held = append(held, x)
				}
			}
			if !errors.Is(err, asynccopy.ErrOutOfMemory) || !strings.HasPrefix(err.Error(), "asynccopy: ") {
				t.Errorf("with %d tensors of 3 units in 16: %v, want ErrOutOfMemory", len(held), err)
			}
			if len(held) != 5 {
				t.Errorf("%d tensors of 3 units fit into 16, want 5", len(held))
			}
			for _, x := range held {
				r.ok(x.Release())
			}
			x := must(b.ToDevice(pageable(12*unit, 1), true))(t)
			r.holds(a, x, 1)
			r.ok(x.Release())
			if r.dev.Stats().Retries == 0 {
				t.Error("nothing was tried again")
			}
		})
	}
}
