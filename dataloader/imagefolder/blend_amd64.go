package imagefolder

// This file has what resizing uses of the processor.

import "golang.org/x/sys/cpu"

// vectors reports whether blendPixels and stackColumns can run. So it has been since Haswell (2013) and Zen (2017).
var vectors = cpu.X86.HasAVX2

// blendPixels makes n pixels of three bytes each at dst, and writes one byte more. Pixel i is the sum of count[i] pixels of
// src, which are step bytes apart and begin with pixel left, from pixel first[i] on, of which it reads four bytes each. Its
// weights begin at i*per.
//
//go:noescape
func blendPixels(dst, src *byte, step, left int, first, count *int, weights *int32, per, n int)

// stackColumns makes n bytes at dst, n a multiple of 16 above 0, which are the sums of count rows that are line bytes apart, count > 0.
//
//go:noescape
func stackColumns(dst, rows *byte, line int, weights *int32, count, n int)
