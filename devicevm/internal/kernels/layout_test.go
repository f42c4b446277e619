package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestGatherAndScatter(t *testing.T) { each(t, testGather[float32], testGather[float64]) }

func testGather[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct {
		shape, strides []uint32
		size           int // of the memory
		unique         bool
	}{
		{[]uint32{1}, []uint32{1}, 1, true},
		{[]uint32{3, 4, 5}, []uint32{20, 5, 1}, 60, true},
		{[]uint32{5, 3, 4}, []uint32{1, 20, 5}, 60, true}, // a permutation
		{[]uint32{2, 3}, []uint32{10, 2}, 30, true},       // a slice
		{[]uint32{4, 3, 2}, []uint32{0, 1, 0}, 3, false},  // a repetition
		{[]uint32{2, 1, 3, 2, 1, 2, 2, 2}, []uint32{96, 96, 32, 16, 16, 8, 4, 2}, 200, true},
	} {
		n := 1
		v := new(View)
		for i, s := range c.shape {
			n *= int(s)
			v.Add(s, c.strides[i])
		}
		memory, got, want := random[T](rng, c.size), make([]T, n), make([]float64, n)
		back, wantBack := make([]T, c.size), make([]float64, c.size)
		for i := range n {
			k, at := i, 0
			for a := len(c.shape) - 1; a >= 0; a-- {
				at += k % int(c.shape[a]) * int(c.strides[a])
				k /= int(c.shape[a])
			}
			want[i] = float64(memory[at])
			wantBack[at] = want[i]
		}
		run(t, "gather"+suffix[T](), [3]uint32{2, 1, 1}, memory, got, uint32(n), v)
		compare(t, fmt.Sprint("gather ", c), got, want)
		if c.unique {
			run(t, "scatter"+suffix[T](), [3]uint32{2, 1, 1}, got, back, uint32(n), v)
			compare(t, fmt.Sprint("scatter ", c), back, wantBack)
		}
	}
}

// windows are convolutions and poolings: odd sizes, strides, dilations, more padding than is needed.
var windows = []Window{
	window(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0),
	window(2, 3, 5, 7, 3, 3, 1, 1, 1, 1, 1, 1),
	window(1, 2, 8, 6, 2, 2, 2, 2, 1, 1, 0, 0),
	window(2, 1, 9, 8, 3, 2, 2, 3, 1, 1, 1, 0),
	window(1, 2, 10, 9, 3, 3, 1, 2, 2, 3, 2, 3),
	window(2, 2, 4, 4, 4, 4, 1, 1, 1, 1, 2, 3),
	window(1, 1, 7, 7, 3, 3, 3, 3, 1, 1, 0, 0), // rows that no window reaches
	window(2, 1, 9, 8, 2, 1, 3, 2, 1, 1, 1, 0), // and between windows
}

func window(b, c, h, w, kh, kw, sh, sw, dh, dw uint32, ph, pw int32) Window {
	by := NewDivisor
	return Window{Batch: b, Channels: by(c), Height: by(h), Width: by(w),
		OutHeight: by((h+2*uint32(ph)-dh*(kh-1)-1)/sh + 1), OutWidth: by((w+2*uint32(pw)-dw*(kw-1)-1)/sw + 1),
		KernelHeight: by(kh), KernelWidth: by(kw), StrideHeight: by(sh), StrideWidth: by(sw),
		DilationHeight: dh, DilationWidth: dw, PadHeight: ph, PadWidth: pw}
}

// visit calls f for each element of each window: column is its place among im2col's, pixel in the image, or -1.
func (w Window) visit(f func(column, pixel int)) {
	column := 0
	for b := range int(w.Batch) {
		for oy := range int(w.OutHeight.By) {
			for ox := range int(w.OutWidth.By) {
				for c := range int(w.Channels.By) {
					for ky := range int(w.KernelHeight.By) {
						for kx := range int(w.KernelWidth.By) {
							y := oy*int(w.StrideHeight.By) + ky*int(w.DilationHeight) - int(w.PadHeight)
							x := ox*int(w.StrideWidth.By) + kx*int(w.DilationWidth) - int(w.PadWidth)
							pixel := -1
							if y >= 0 && y < int(w.Height.By) && x >= 0 && x < int(w.Width.By) {
								pixel = ((b*int(w.Channels.By)+c)*int(w.Height.By)+y)*int(w.Width.By) + x
							}
							f(column, pixel)
							column++
						}
					}
				}
			}
		}
	}
}

func (w Window) image() int  { return int(w.Batch * w.Channels.By * w.Height.By * w.Width.By) }
func (w Window) pooled() int { return int(w.Batch * w.Channels.By * w.OutHeight.By * w.OutWidth.By) }
func (w Window) columns() int {
	return int(w.Batch * w.OutHeight.By * w.OutWidth.By * w.Channels.By * w.KernelHeight.By * w.KernelWidth.By)
}

func TestColumns(t *testing.T) { each(t, testColumns[float32], testColumns[float64]) }

func testColumns[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for _, w := range windows {
		image, columns := random[T](rng, w.image()), random[T](rng, w.columns())
		wantColumns, wantImage := make([]float64, w.columns()), make([]float64, w.image())
		w.visit(func(column, pixel int) {
			if pixel >= 0 {
				wantColumns[column] = float64(image[pixel])
				wantImage[pixel] += float64(columns[column])
			}
		})
		got, back := make([]T, w.columns()), make([]T, w.image())
		run(t, "im2col"+suffix[T](), [3]uint32{2, 1, 1}, image, got, &w)
		compare(t, fmt.Sprintf("im2col %+v", w), got, wantColumns)
		run(t, "col2im"+suffix[T](), [3]uint32{2, 1, 1}, columns, back, &w)
		compare(t, fmt.Sprintf("col2im %+v", w), back, wantImage)
	}
}

func TestMaxPool(t *testing.T) { each(t, testMaxPool[float32], testMaxPool[float64]) }

func testMaxPool[T float](t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, w := range windows {
		if w.DilationHeight > 1 || w.DilationWidth > 1 {
			continue // pooling has none
		}
		image, grad := random[T](rng, w.image()), random[T](rng, w.pooled())
		for i := range image { // equal values: the first wins
			image[i] = T(math.Round(float64(image[i]) * 2))
		}
		want, wantDiff := make([]float64, w.pooled()), make([]float64, w.image())
		best := make([]int, w.pooled())
		for i := range best {
			best[i] = -1
		}
		per := int(w.KernelHeight.By * w.KernelWidth.By)
		w.visit(func(column, pixel int) {
			window, c := column/per/int(w.Channels.By), column/per%int(w.Channels.By)
			area := int(w.OutHeight.By * w.OutWidth.By)
			o := (window/area*int(w.Channels.By)+c)*area + window%area
			if pixel >= 0 && (best[o] < 0 || image[pixel] > image[best[o]]) {
				best[o] = pixel
			}
		})
		for o, pixel := range best {
			want[o] = -math.MaxFloat64
			if suffix[T]() == "_f32" {
				want[o] = -math.MaxFloat32
			}
			if pixel >= 0 {
				want[o] = float64(image[pixel])
				wantDiff[pixel] += float64(grad[o])
			}
		}
		got, where, diff := make([]T, w.pooled()), make([]int32, w.pooled()), make([]T, w.image())
		run(t, "max_pool"+suffix[T](), [3]uint32{2, 1, 1}, image, got, where, &w)
		compare(t, fmt.Sprintf("max_pool %+v", w), got, want)
		run(t, "max_pool_diff"+suffix[T](), [3]uint32{2, 1, 1}, grad, where, &PoolDiff{w, *expression(t, nil, nil, address(t, diff))})
		compare(t, fmt.Sprintf("max_pool_diff %+v", w), diff, wantDiff)
		masked := make([]T, len(diff))
		mask := []Instruction{{Op: Mask, X: Previous, Y: 0, Store: 1}}
		run(t, "max_pool_diff"+suffix[T](), [3]uint32{2, 1, 1}, grad, where, &PoolDiff{w, *expression(t, []Operand{full(t, image)}, mask, address(t, masked))})
		for i, x := range image {
			wantDiff[i] *= truth(x >= 0)
		}
		compare(t, fmt.Sprintf("max_pool_diff %+v, masked", w), masked, wantDiff)
	}
}

// A NaN in a window is its maximum, as in the other operations.
func TestMaxPoolOfNaN(t *testing.T) { everywhere(t, testMaxPoolOfNaN) }

func testMaxPoolOfNaN(t *testing.T) {
	w := window(1, 1, 1, 4, 1, 2, 1, 2, 1, 1, 0, 0)
	image := []float32{1, float32(math.NaN()), float32(math.NaN()), 2}
	got, where := make([]float32, 2), make([]int32, 2)
	run(t, "max_pool_f32", [3]uint32{1, 1, 1}, image, got, where, &w)
	if got[0] == got[0] || got[1] == got[1] || where[0] != 1 || where[1] != 2 {
		t.Errorf("%v at %v, want NaN at [1 2]", got, where)
	}
	w = window(1, 1, 2, 4, 2, 2, 2, 2, 1, 1, 0, 0)
	nan := float32(math.NaN())
	run(t, "max_pool_f32", [3]uint32{1, 1, 1}, []float32{1, nan, 3, 4, nan, 0, 5, nan}, got, where, &w)
	if got[0] == got[0] || got[1] == got[1] || where[0] != 1 || where[1] != 7 {
		t.Errorf("%v at %v, want NaN at [1 7]", got, where)
	}
}
