package pintensor

// This file has Pin: copies of tensors of any layout.

import (
	"errors"
	"fmt"

	"github.com/pintensor/pin/internal/strided"
	"gorgonia.org/tensor"
)

// Pin returns a copy of t in page-locked memory: contiguous and row-major, of the same shape and dtype,
// with the standard engine. t may be a view, sliced, transposed or column-major; it is only read, and
// others may read it at the same time. A mask is copied too. Pin always copies, also what is pinned
// already. Several goroutines copy from 2 MiB on, or from 512 KiB in pieces shorter than 1 KiB, see
// [WithParallelism], and on amd64 past the caches what is contiguous: a device reads it faster then, and the host, if it is to
// read it, slower. The copy is the caller's to Release.
//
// What is not contiguous takes longer. On the 16 cores of an H200's host contiguous tensors of 64 MiB of float32 were
// copied at 117 GB/s, and others, of that: at 69 % if they consist of rows of 4 KiB, 62 % with rows of 256 bytes, 37 % with
// rows of 32 bytes, 33 % for NHWC to NCHW, 18 % for a transposed matrix (BenchmarkPinLayout).
func (e *Engine) Pin(t *tensor.Dense) (*tensor.Dense, error) {
	if t == nil {
		return nil, errors.New("pintensor: Pin: t is nil, want a *tensor.Dense")
	}
	hold, err := acquire(t)
	if err != nil {
		return nil, fmt.Errorf("pintensor: Pin: t of shape %v: %w", t.Shape(), err)
	}
	defer hold.Done()
	if err := checkAccess(t); err != nil {
		return nil, fmt.Errorf("pintensor: Pin: t of shape %v: %w", t.Shape(), err)
	}
	layout, err := strided.Of(t)
	if err != nil {
		return nil, fmt.Errorf("pintensor: Pin: %w", err)
	}
	p, n, err := e.admit("Pin", t.Dtype(), t.Shape())
	if err != nil {
		return nil, err
	}
	var mask []bool
	if t.IsMasked() && len(t.Mask()) > 0 {
		if mask, err = layout.Mask(t.Mask()); err != nil {
			return nil, fmt.Errorf("pintensor: Pin: t: %w", err)
		}
	}
	d, _, err := e.lend(p, n, t.Shape())
	if err != nil {
		return nil, fmt.Errorf("pintensor: Pin: %w", err)
	}
	if g := grainOf(layout); n < int64(g.from) {
		layout.Gather(d.Raw, 0)
	} else {
		gatherParts(e.parallelism, d.Raw, layout, int(p.size), g)
	}
	if mask != nil {
		d.SetMask(mask)
	}
	return d, nil
}

func grainOf(layout strided.Layout) grain {
	if layout.Run() < shortRun && !layout.Contiguous() {
		return slow
	}
	return fast
}

// gatherParts gathers what is pinned to be read by a device. It is apart from Pin because its layout is on the heap, for
// the goroutines.
func gatherParts(most int, dst []byte, layout strided.Layout, elem int, g grain) {
	share(most, len(dst), elem, g, func(from, to int) { layout.GatherNonTemporal(dst[from:to], from) })
}
