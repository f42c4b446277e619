//go:build !amd64

package imagefolder

// vectors: there is no code for this processor.
const vectors = false

func blendPixels(dst, src *byte, step, left int, first, count *int, weights *int32, per, n int) {
	panic("imagefolder: no vectors")
}

func stackColumns(dst, rows *byte, line int, weights *int32, count, n int) {
	panic("imagefolder: no vectors")
}
