package imagefolder

import (
	"bytes"
	"fmt"
	"image"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pintensor/pin/internal/leak"
)

// What the processor's vectors make is what Go makes, and nothing else is written but the byte that they say.
func TestVectors(t *testing.T) {
	leak.Check(t)
	if !vectors {
		t.Skip("NOT RUN: this processor has no code of its own")
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.IntRange(1, 300).Draw(t, "pixels in")
		n := rapid.IntRange(1, 120).Draw(t, "pixels out")
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		to := rapid.IntRange(from+1, n).Draw(t, "to")
		step := rapid.IntRange(3, 4).Draw(t, "step")
		var a taps
		a.set(in, n, from, to)
		left := a.first[0]
		line := 3 * (to - from)
		src := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 7, 128, 254, 255}), (a.last()-left)*step+1, (a.last()-left)*step+1).Draw(t, "row")
		want, got := make([]byte, line), bytes.Repeat([]byte{0xee}, line+9)
		a.blendInGo(want, src, step, left)
		a.blendRGB(got[:line+1], src, step, left)
		if !slices.Equal(got[:line], want) || !bytes.Equal(got[line+1:], bytes.Repeat([]byte{0xee}, 8)) {
			t.Fatalf("a row: %v, want %v", got, want)
		}

		// the same as columns
		width := rapid.IntRange(1, 70).Draw(t, "columns")
		rows := rapid.SliceOfN(rapid.Byte(), (a.last()-left)*width, (a.last()-left)*width).Draw(t, "rows")
		z := resizer{down: a, narrow: rows, sums: make([]int32, width)}
		for y := range to - from {
			weights := a.weights[y*a.per : y*a.per+a.count[y]]
			want, got := make([]byte, width), bytes.Repeat([]byte{0xee}, width+8)
			stackInGo(want, rows[(a.first[y]-left)*width:], width, weights, make([]int32, width))
			z.stack(got[:width:width], y, left)
			if !slices.Equal(got[:width], want) || !bytes.Equal(got[width:], bytes.Repeat([]byte{0xee}, 8)) {
				t.Fatalf("row %d of columns: %v, want %v", y, got, want)
			}
		}
	})
}

// Resizing allocates nothing once there is memory, whatever the kind of image and whoever blends.
func TestResizeAllocatesNothing(t *testing.T) {
	leak.Check(t)
	var z resizer
	c := Config{Height: 14, Width: 13, Resize: 16}
	kinds := synthetic(37, 23)
	kinds["YCbCr"] = image.NewYCbCr(image.Rect(0, 0, 37, 23), image.YCbCrSubsampleRatio420)
	for name, m := range kinds {
		for _, gray := range []bool{false, true} {
			g := c.geometry(m.Bounds(), nil)
			if n := testing.AllocsPerRun(20, func() { z.resize(m, g, gray) }); n != 0 {
				t.Errorf("%s, gray %v: %v allocations", name, gray, n)
			}
		}
	}
}

// BenchmarkBlend makes a row of 224 pixels of one of 500, and one of 7 rows of 224.
func BenchmarkBlend(b *testing.B) {
	var a taps
	a.set(500, 224, 0, 224)
	src, dst := make([]byte, 500*4+1), make([]byte, 224*3+1)
	for i := range src {
		src[i] = byte(i * 31)
	}
	rows, sums := make([]byte, 7*224*3), make([]int32, 224*3)
	z := resizer{down: a, narrow: rows, sums: sums}
	for _, step := range []int{3, 4} {
		b.Run(fmt.Sprintf("across/step=%d/by=go", step), func(b *testing.B) {
			for b.Loop() {
				a.blendInGo(dst, src, step, 0)
			}
		})
		if vectors {
			b.Run(fmt.Sprintf("across/step=%d/by=vectors", step), func(b *testing.B) {
				for b.Loop() {
					a.blendRGB(dst, src, step, 0)
				}
			})
		}
	}
	b.Run("down/by=go", func(b *testing.B) {
		for b.Loop() {
			stackInGo(dst[:224*3], rows, 224*3, a.weights[:a.count[1]], sums)
		}
	})
	if vectors {
		b.Run("down/by=vectors", func(b *testing.B) {
			for b.Loop() {
				z.stack(dst[:224*3], 0, 0)
			}
		})
	}
}
