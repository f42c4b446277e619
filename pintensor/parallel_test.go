package pintensor

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/strided"
)

func TestPartsAreTheWholeAndDoNotOverlap(t *testing.T) {
	leak.Check(t)
	for _, g := range []grain{fast, slow} {
		for _, n := range []int{0, 1, g.part, g.from - 1, g.from, g.from + 1, 7*g.part + 13, 64*maxPart + 5} {
			for _, unit := range []int{1, 3, 16, 4096} {
				var mu sync.Mutex
				var parts [][2]int
				share(mostParallel, n, unit, g, func(from, to int) {
					mu.Lock()
					defer mu.Unlock()
					parts = append(parts, [2]int{from, to})
				})
				slices.SortFunc(parts, func(a, b [2]int) int { return a[0] - b[0] })
				at := 0
				for _, p := range parts {
					if p[0] != at || p[0]%unit != 0 || p[1] < p[0] {
						t.Fatalf("n %d, unit %d: parts %v", n, unit, parts)
					}
					at = p[1]
				}
				if most := n/g.part + 1; at != n || len(parts) > most || n < g.from && len(parts) > 1 {
					t.Fatalf("n %d, unit %d: parts %v", n, unit, parts)
				}
			}
		}
	}
}

// Who gathers short pieces gets help sooner.
func TestGrainOfLayouts(t *testing.T) {
	leak.Check(t)
	d := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(16, 1024))
	turned := d.ShallowClone()
	if err := turned.T(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		t    *tensor.Dense
		want grain
	}{
		"contiguous": {d, fast}, "rows of 2 KiB": {slice(t, d, nil, tensor.S(0, 512)), fast},
		"rows of 32 bytes": {slice(t, d, nil, tensor.S(0, 8)), slow}, "transposed": {turned, slow},
	} {
		if got := grainOf(must[strided.Layout](t)(strided.Of(c.t))); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestLargeTensors pins tensors that several goroutines copy, and clears their blocks for the next.
func TestLargeTensors(t *testing.T) {
	for _, elem := range []tensor.Dtype{tensor.Uint8, tensor.Float64, tensor.Complex128} {
		t.Run(fmt.Sprint(elem), func(t *testing.T) {
			e := newRig(t)
			rows := 3*parallelFrom/1024/int(elem.Size()) + 1
			src := tensor.New(tensor.Of(elem), tensor.WithShape(rows, 1024))
			for i := range src.Raw {
				src.Raw[i] = byte(i * 7 >> 3)
			}
			d := must[*tensor.Dense](t)(e.Pin(src))
			if !bytes.Equal(d.Raw, src.Raw) {
				t.Error("the copy differs")
			}
			if err := e.Release(d); err != nil {
				t.Fatal(err)
			}
			wantT := src.ShallowClone()
			if err := wantT.T(); err != nil {
				t.Fatal(err)
			}
			got := must[*tensor.Dense](t)(e.Pin(wantT))
			size := int(elem.Size())
			for k := 0; k < 1024*rows; k += 997 {
				at := (k%rows*1024 + k/rows) * size
				if !bytes.Equal(got.Raw[k*size:(k+1)*size], src.Raw[at:at+size]) {
					t.Fatalf("element %d of the transpose differs", k)
				}
			}
			if err := e.Release(got); err != nil {
				t.Fatal(err)
			}
			zeros := must[*tensor.Dense](t)(e.New(elem, rows, 1024))
			for i, b := range zeros.Raw {
				if b != 0 {
					t.Fatalf("byte %d of a recycled block is %d", i, b)
				}
			}
			if err := e.Release(zeros); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestParallelismIsBounded(t *testing.T) {
	leak.Check(t)
	before := runtime.GOMAXPROCS(8)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for most, want := range map[int]int64{1: 1, 3: 3, 100: 8} {
		synctest.Test(t, func(t *testing.T) {
			var now, peak atomic.Int64
			share(most, 16<<20, 1, fast, func(from, to int) {
				n := now.Add(1)
				for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
				}
				time.Sleep(time.Millisecond) // until all that there are have begun
				now.Add(-1)
			})
			if got := peak.Load(); got != want {
				t.Errorf("%d goroutines worked at once, want %d", got, want)
			}
		})
	}
}

func TestWithParallelism(t *testing.T) {
	for n, want := range map[int]int{0: mostParallel, 1: 1, 7: 7, limitParallel: limitParallel} {
		if e := newRig(t, WithParallelism(n)); e.parallelism != want {
			t.Errorf("%d: at most %d goroutines, want %d", n, e.parallelism, want)
		}
	}
	for _, n := range []int{-1, limitParallel + 1} {
		_, err := NewEngine(WithParallelism(n))
		if want := fmt.Sprintf("pintensor: WithParallelism: n is %d goroutines, want 0 to 1024", n); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
