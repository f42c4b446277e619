package pintensor

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/leak"
)

func TestPartsAreTheWholeAndDoNotOverlap(t *testing.T) {
	leak.Check(t)
	for _, n := range []int{0, 1, partSize, parallelFrom - 1, parallelFrom, parallelFrom + 1, 7*partSize + 13, 64*partSize + 5} {
		for _, unit := range []int{1, 3, 16, 4096} {
			var mu sync.Mutex
			var parts [][2]int
			inParts(n, unit, func(from, to int) {
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
			if at != n || len(parts) > maxParts {
				t.Fatalf("n %d, unit %d: parts %v", n, unit, parts)
			}
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
