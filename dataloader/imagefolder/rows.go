package imagefolder

// Rows of pixels of every kind of image that the decoders make, as bytes: red, green, blue, or brightness.

import (
	"image"
	"image/color"
)

// readRow writes the pixels from x0 to x1-1 of row y of m to the start of dst, which has room for three bytes
// each, one channel or three. Transparency is ignored, as by Pillow's convert("RGB").
func readRow(dst []byte, m image.Image, x0, x1, y int, gray bool) {
	n := x1 - x0
	if gray {
		switch m := m.(type) {
		case *image.YCbCr:
			copy(dst[:n], m.Y[m.YOffset(x0, y):])
			return
		case *image.Gray:
			copy(dst[:n], m.Pix[m.PixOffset(x0, y):])
			return
		}
	}
	dst = dst[:3*n]
	switch m := m.(type) {
	case *image.YCbCr:
		readYCbCr(dst, m, x0, y)
	case *image.RGBA: // the PNG decoder makes it of opaque images
		readSteps(dst, m.Pix[m.PixOffset(x0, y):], 4, 0, 1, 2)
	case *image.NRGBA:
		readSteps(dst, m.Pix[m.PixOffset(x0, y):], 4, 0, 1, 2)
	case *image.RGBA64: // of the two bytes of a colour the first is the high one
		readSteps(dst, m.Pix[m.PixOffset(x0, y):], 8, 0, 2, 4)
	case *image.NRGBA64:
		readSteps(dst, m.Pix[m.PixOffset(x0, y):], 8, 0, 2, 4)
	case *image.Gray:
		readSteps(dst, m.Pix[m.PixOffset(x0, y):], 1, 0, 0, 0)
	case *image.Gray16:
		readSteps(dst, m.Pix[m.PixOffset(x0, y):], 2, 0, 0, 0)
	default: // image.Paletted, image.CMYK
		for i := range n {
			p := dst[3*i : 3*i+3 : 3*i+3]
			p[0], p[1], p[2] = opaque(m, x0+i, y)
		}
	}
	if gray {
		for i := range n { // which overwrites only what was read
			p := dst[3*i : 3*i+3 : 3*i+3]
			dst[i] = byte((uint32(p[0])*19595 + uint32(p[1])*38470 + uint32(p[2])*7471 + 1<<15) >> 16) // as Pillow does
		}
	}
}

// rgba returns the pixels of m from (x, y) on where they are four bytes each, of which the first three are the colours; else nil.
func rgba(m image.Image, x, y int) []byte {
	switch m := m.(type) {
	case *image.RGBA:
		return m.Pix[m.PixOffset(x, y):]
	case *image.NRGBA:
		return m.Pix[m.PixOffset(x, y):]
	}
	return nil
}

// readSteps copies the bytes numbered r, g and b of every step bytes.
func readSteps(dst, src []byte, step, r, g, b int) {
	for i := 0; i+3 <= len(dst); i += 3 {
		dst[i], dst[i+1], dst[i+2] = src[r], src[g], src[b]
		src = src[min(step, len(src)):]
	}
}

// readYCbCr converts a row of a JPEG.
func readYCbCr(dst []byte, m *image.YCbCr, x0, y int) {
	lum := m.Y[m.YOffset(x0, y):][:len(dst)/3]
	row := m.COffset(m.Rect.Min.X, y)
	cb, cr := m.Cb[row:], m.Cr[row:]
	// COffset's division for each pixel would take longer than all else. Decoders begin at 0, so a shift does it.
	shift := 0
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		shift = 1
	case image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410:
		shift = 2
	}
	for i, v := range lum {
		c := (x0 + i) >> shift
		p := dst[3*i : 3*i+3 : 3*i+3]
		p[0], p[1], p[2] = color.YCbCrToRGB(v, cb[c], cr[c])
	}
}

// opaque returns the colour of a pixel, its transparency left off.
func opaque(m image.Image, x, y int) (r, g, b byte) {
	switch c := m.At(x, y).(type) {
	case color.NRGBA:
		return c.R, c.G, c.B
	case color.NRGBA64:
		return byte(c.R >> 8), byte(c.G >> 8), byte(c.B >> 8)
	default:
		r, g, b, _ := c.RGBA()
		return byte(r >> 8), byte(g >> 8), byte(b >> 8)
	}
}
