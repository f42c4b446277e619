package imagefolder

// Resizing. The arithmetic is that of Pillow's Resample.c, for results that are equal to the bit: weights
// of a triangle as wide as an output pixel, in fixed point; first along rows, rounded to bytes, then along columns.
//
// Package golang.org/x/image/draw has the same filter. It took 3.1 ms and 2.7 MB where this takes 1.3 ms without vectors and
// nothing (500 x 375 JPEG to 224 x 224, one core), as it converts colours again for each weight and keeps
// float64s in between; and its results differ a little from those that models were trained with.

import (
	"image"
	"math"
)

const precision = 22 // bits after the point of a weight

// taps is which input pixels, with which weights, make each output pixel of one axis.
type taps struct {
	first   []int   // by output pixel: its first input pixel
	weights []int32 // per of them for each output pixel; those not needed are 0 and at the end
	count   []int   // by output pixel: how many of them are needed
	per     int
}

// set computes the taps of the output pixels from to to-1, of n that in input pixels are resized to.
func (t *taps) set(in, n, from, to int) {
	scale := float64(in) / float64(n)
	width := max(scale, 1)
	t.per = int(math.Ceil(width))*2 + 1
	t.first = grow(t.first, to-from)
	t.count = grow(t.count, to-from)
	t.weights = grow(t.weights, (to-from)*t.per)
	var exact [64]float64
	k := exact[:]
	if t.per > len(k) {
		k = make([]float64, t.per)
	}
	for i := range to - from {
		center := (float64(from+i) + 0.5) * scale
		first := max(int(center-width+0.5), 0)
		count := min(int(center+width+0.5), in) - first
		sum := 0.0
		for j := range count {
			x := math.Abs((float64(j+first) - center + 0.5) * (1 / width))
			k[j] = max(1-x, 0)
			sum += k[j]
		}
		weights := t.weights[i*t.per : (i+1)*t.per]
		clear(weights)
		for j := range count {
			weights[j] = int32(0.5 + k[j]/sum*(1<<precision))
		}
		t.first[i], t.count[i] = first, count
	}
}

// last is one more than the last input pixel that is needed.
func (t *taps) last() int {
	n := len(t.first) - 1
	return t.first[n] + t.count[n]
}

// resizer has the memory of a resize, to be used again.
type resizer struct {
	decoded      image.Image // by Config.DecodeJPEG, the last time
	across, down taps
	row          []byte  // of the input
	narrow       []byte  // rows of the input that are needed, of the output's width
	sums         []int32 // of a row of the output
	out          []byte  // the output, row by row, channels last
}

// resize computes the pixels that g asks for, and returns them row by row, channels last.
func (z *resizer) resize(m image.Image, g geometry, gray bool) []byte {
	channels := 3
	if gray {
		channels = 1
	}
	box, part := g.box, g.part
	z.across.set(box.Dx(), g.width, part.Min.X, part.Max.X)
	z.down.set(box.Dy(), g.height, part.Min.Y, part.Max.Y)
	left, right := z.across.first[0], z.across.last()
	top, bottom := z.down.first[0], z.down.last()
	line := part.Dx() * channels
	z.row = grow(z.row, 3*(right-left)+1) // and one, of blendPixels
	z.narrow = grow(z.narrow, (bottom-top)*line+1)
	z.sums = grow(z.sums, line)
	z.out = grow(z.out, part.Dy()*line)
	for y := top; y < bottom; y++ {
		dst := z.narrow[(y-top)*line : (y-top+1)*line+1]
		if pixels := rgba(m, box.Min.X+left, box.Min.Y+y); pixels != nil && !gray {
			z.across.blendRGB(dst, pixels[:4*(right-left)], 4, left)
			continue
		}
		readRow(z.row, m, box.Min.X+left, box.Min.X+right, box.Min.Y+y, gray)
		if gray {
			z.across.blendGray(dst, z.row, left)
		} else {
			z.across.blendRGB(dst, z.row, 3, left)
		}
	}
	for y := range part.Dy() {
		z.stack(z.out[y*line:(y+1)*line], y, top)
	}
	return z.out
}

const half = 1 << (precision - 1)

// clip makes a byte of a sum of weighted ones, which rounding may have made a little larger than 255.
func clip(sum int32) byte { return byte(min(sum>>precision, 255)) }

// blendRGB makes a row of the output's width of a row of the input that begins at pixel left, step bytes a pixel. It uses one byte
// more of either.
func (t *taps) blendRGB(dst, src []byte, step, left int) {
	if vectors {
		n := len(t.first)
		_, _ = dst[3*n], src[(t.last()-1-left)*step+3]
		blendPixels(&dst[0], &src[0], step, left, &t.first[0], &t.count[0], &t.weights[0], t.per, n)
		return
	}
	t.blendInGo(dst, src, step, left)
}

func (t *taps) blendInGo(dst, src []byte, step, left int) {
	for i, first := range t.first {
		r, g, b := int32(half), int32(half), int32(half)
		p := src[step*(first-left):]
		for j, w := range t.weights[i*t.per : i*t.per+t.count[i]] {
			q := p[step*j : step*j+3 : step*j+3]
			r += w * int32(q[0])
			g += w * int32(q[1])
			b += w * int32(q[2])
		}
		q := dst[3*i : 3*i+3 : 3*i+3]
		q[0], q[1], q[2] = clip(r), clip(g), clip(b)
	}
}

func (t *taps) blendGray(dst, src []byte, left int) {
	for i, first := range t.first {
		sum := int32(half)
		p := src[first-left:]
		for j, w := range t.weights[i*t.per : i*t.per+t.count[i]] {
			sum += w * int32(p[j])
		}
		dst[i] = clip(sum)
	}
}

// stack makes row y of the output of the narrow rows, of which the first is row top.
func (z *resizer) stack(dst []byte, y, top int) {
	t, line, done := &z.down, len(dst), 0
	weights := t.weights[y*t.per : y*t.per+t.count[y]]
	rows := z.narrow[(t.first[y]-top)*line:][:len(weights)*line]
	if vectors && line >= 16 {
		done = line &^ 15
		stackColumns(&dst[0], &rows[0], line, &weights[0], len(weights), done)
	}
	if done < line {
		stackInGo(dst[done:], rows[done:], line, weights, z.sums)
	}
}

// stackInGo is stackColumns for any number of columns, which is that of dst. It has sums for memory.
func stackInGo(dst, rows []byte, line int, weights, sums []int32) {
	sums = sums[:len(dst)]
	for i := range sums {
		sums[i] = half
	}
	for len(weights) > 1 { // two at once: the sums are read and written half as often
		u, v := weights[0], weights[1]
		p, q := rows[:len(dst)], rows[line:][:len(dst)]
		for i := range sums {
			sums[i] += u*int32(p[i]) + v*int32(q[i])
		}
		weights = weights[2:]
		rows = rows[min(2*line, len(rows)):]
	}
	if len(weights) == 1 {
		for i, v := range rows[:len(dst)] {
			sums[i] += weights[0] * int32(v)
		}
	}
	for i, s := range sums {
		dst[i] = clip(s)
	}
}

// grow returns s with n elements, whose values are of no use. Memory is left for somewhat larger images: the next may
// be one.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		s = make([]T, n+n/2)
	}
	return s[:n]
}
