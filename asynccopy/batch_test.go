package asynccopy_test

// This file tests copies of many tensors at once.

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

// TestBatchesArriveWhole mixes tensors of every kind: memory, size, layout.
func TestBatchesArriveWhole(t *testing.T) {
	onEach(t, func(r *rig) {
		s, other := r.stream(), r.stream()
		run := func(rt *rapid.T) {
			var ts, pinned []*tensor.Dense
			for range rapid.IntRange(0, 6).Draw(rt, "tensors") {
				var src *tensor.Dense
				switch rapid.IntRange(0, 4).Draw(rt, "kind") {
				case 0:
					src = r.pinned(rapid.SampledFrom([]int{0, 1, 4096, 32 << 10, 32<<10 + 1}).Draw(rt, "pinned"), rapid.Uint64().Draw(rt, "seed"))
					pinned = append(pinned, src)
				case 1:
					src = pageable(rapid.SampledFrom([]int{0, 3, 100, 5000, 20000, asynccopy.Smallest + 1}).Draw(rt, "pageable"), rapid.Uint64().Draw(rt, "seed"))
				case 2:
					src = tensor.New(tensor.FromScalar(rapid.Float64().Draw(rt, "scalar")))
				default:
					src = drawView(rt, r)
				}
				ts = append(ts, src)
			}
			xs := must(s.ToDeviceBatch(ts, rapid.Bool().Draw(rt, "nonBlocking")))(r)
			if len(xs) != len(ts) {
				rt.Fatalf("%d tensors gave %d", len(ts), len(xs))
			}
			for _, i := range rapid.Permutation(axesOf(len(ts))).Draw(rt, "order") {
				x := xs[i]
				if x.Dtype() != ts[i].Dtype() || !reflect.DeepEqual(x.Shape(), ts[i].Shape()) || x.DevicePtr()%256 != 0 {
					rt.Fatalf("tensor %d, %v%v, is %v at %#x", i, ts[i].Dtype(), ts[i].Shape(), x, x.DevicePtr())
				}
				var want []byte
				if x.MemSize() > 0 {
					want = elements(ts[i])
				}
				if got := r.bytesOf(other, x); !bytes.Equal(got, want) {
					rt.Fatalf("tensor %d, %v%v, of %d bytes arrived with others", i, ts[i].Dtype(), ts[i].Shape(), x.MemSize())
				}
				r.ok(x.Release())
			}
			if st := r.dev.Stats(); st.Tensors != 0 || st.Memory.Current != 0 {
				rt.Fatalf("left %+v", st)
			}
			for _, p := range pinned {
				r.release(p)
			}
		}
		rapid.Check(r.TB.(*testing.T), run)
	})
}

// TestBatchOfOddElements: a chunk ends within elements of a size that is no power of two.
func TestBatchOfOddElements(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		rgb := tensor.Dtype{Type: reflect.TypeFor[[3]uint8]()}
		var ts []*tensor.Dense
		for range 3 {
			src := tensor.New(tensor.Of(rgb), tensor.WithShape(300, 301))
			pattern(src, 1)
			r.ok(src.T())
			ts = append(ts, src)
		}
		for i, x := range must(s.ToDeviceBatch(ts, true))(r) {
			if got := r.bytesOf(s, x); !bytes.Equal(got, elements(ts[i])) {
				r.Errorf("tensor %d arrived with others", i)
			}
			r.ok(x.Release())
		}
	})
}

// TestBatchIsOneCopy of small tensors, with one event.
func TestBatchIsOneCopy(t *testing.T) {
	calls := drivertest.NewFaulty(soft.New(soft.Config{Host: locking{}}))
	r := newRig(t, calls)
	s := r.stream()
	var ts []*tensor.Dense
	for i := range 50 {
		ts = append(ts, pageable(4096, uint64(i)))
		if i%2 == 0 {
			ts[i] = r.pinned(4096, uint64(i))
		}
	}
	before := calls.Calls("CopyHtoD")
	xs := must(s.ToDeviceBatch(ts, false))(t)
	if n := calls.Calls("CopyHtoD") - before; n != 1 {
		t.Errorf("%d copies, want 1", n)
	}
	st := r.dev.Stats()
	if st.ToDevice != (asynccopy.Traffic{Copies: 50, Bytes: 50 * 4096, Staged: 50}) || st.Tensors != 1 {
		t.Errorf("%+v", st)
	}
	for i, x := range xs {
		r.holds(s, x, uint64(i))
		r.ok(x.Release())
		if i%2 == 0 {
			r.release(ts[i])
		}
	}
}

// TestBatchSourcesReleasedAtOnce: the copy holds what it reads.
func TestBatchSourcesReleasedAtOnce(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.stream()
		sizes := []int{100 << 10, 300 << 10, 100, 4096} // those that the device reads itself first
		var ts []*tensor.Dense
		for i, n := range sizes {
			ts = append(ts, r.pinned(n, uint64(i)))
		}
		xs := must(s.ToDeviceBatch(ts, true))(r)
		for i, src := range ts {
			r.release(src)
			churn(r, sizes[i])
		}
		for i, x := range xs {
			r.holds(s, x, uint64(i))
			r.ok(x.Release())
		}
	})
}

func TestBadBatches(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Memory: 1 << 20}))
	s := r.stream()
	large, small, gone := r.pinned(100<<10, 1), r.pinned(10, 1), r.pinned(10, 1)
	r.release(gone)
	for name, c := range map[string]struct {
		ts    []*tensor.Dense
		words []string
	}{
		"nil":           {[]*tensor.Dense{small, large, nil}, []string{"ts[2]: ", "nil"}},
		"pointers":      {[]*tensor.Dense{tensor.New(tensor.WithBacking([]string{"a"})), large}, []string{"ts[0]: ", "string"}},
		"released":      {[]*tensor.Dense{large, small, gone}, []string{"ts[2]: ", "released"}},
		"out of memory": {[]*tensor.Dense{large, small, pageable(2<<20, 1)}, []string{"out of memory"}},
	} {
		xs, err := s.ToDeviceBatch(c.ts, true)
		refused(t, name, err, c.words...)
		if xs != nil {
			t.Errorf("%s: tensors beside the error", name)
		}
	}
	if st := r.dev.Stats(); st.Tensors != 0 || r.engine.Stats().InFlight.Current != 0 {
		t.Errorf("refused calls left %+v", st)
	}
	r.release(large) // a hold that was left would keep it
	r.release(small)
	if st := r.engine.Stats(); st.Cached.Current < 100<<10 {
		t.Errorf("held: %+v", st)
	}
	if xs := must(s.ToDeviceBatch(nil, false))(t); len(xs) != 0 {
		t.Errorf("nothing gave %v", xs)
	}
	r.ok(s.Close())
	if _, err := s.ToDeviceBatch([]*tensor.Dense{pageable(1, 1)}, true); !errors.Is(err, asynccopy.ErrClosed) {
		t.Errorf("on a closed stream: %v", err)
	}
	var none *asynccopy.Stream
	_, err := none.ToDeviceBatch(nil, true)
	refused(t, "nil stream", err, "ToDeviceBatch", "nil")
}
