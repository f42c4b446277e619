package imagefolder

// Which part of an image becomes a sample, and how large it gets: torchvision's transforms.

import (
	"image"
	"math"
	"math/rand/v2"
)

// geometry says: resize box to width x height, and take part of that.
type geometry struct {
	box           image.Rectangle // in the image
	width, height int
	part          image.Rectangle
}

// geometry chooses the part of an image of the given bounds. draw is asked only where chance decides.
func (c *Config) geometry(bounds image.Rectangle, draw func() *rand.Rand) geometry {
	whole := image.Rect(0, 0, c.Width, c.Height)
	switch c.Crop {
	case Squash:
		return geometry{bounds, c.Width, c.Height, whole}
	case RandomResizedCrop:
		return geometry{c.randomBox(bounds, draw()), c.Width, c.Height, whole}
	}
	w, h := bounds.Dx(), bounds.Dy()
	short, long := min(w, h), max(w, h)
	long = int(int64(c.Resize) * int64(long) / int64(short))
	if w <= h {
		w, h = c.Resize, long
	} else {
		w, h = long, c.Resize
	}
	var at image.Point
	if c.Crop == CenterCrop {
		at = image.Pt(middle(w-c.Width), middle(h-c.Height))
	} else {
		r := draw()
		at = image.Pt(r.IntN(w-c.Width+1), r.IntN(h-c.Height+1))
	}
	return geometry{bounds, w, h, whole.Add(at)}
}

// middle is half of n, rounded as Python does.
func middle(n int) int { return int(math.RoundToEven(float64(n) / 2)) }

// randomBox is torchvision's RandomResizedCrop.get_params.
func (c *Config) randomBox(bounds image.Rectangle, r *rand.Rand) image.Rectangle {
	w, h := bounds.Dx(), bounds.Dy()
	area := float64(w) * float64(h)
	low, high := math.Log(minRatio), math.Log(maxRatio)
	for range 10 {
		target := area * (c.Scale[0] + r.Float64()*(c.Scale[1]-c.Scale[0]))
		ratio := math.Exp(low + r.Float64()*(high-low))
		bw := int(math.RoundToEven(math.Sqrt(target * ratio)))
		bh := int(math.RoundToEven(math.Sqrt(target / ratio)))
		if 0 < bw && bw <= w && 0 < bh && bh <= h {
			y, x := r.IntN(h-bh+1), r.IntN(w-bw+1)
			return image.Rect(x, y, x+bw, y+bh).Add(bounds.Min)
		}
	}
	// Nothing fits an image so long: its middle, with the nearest proportions.
	bw, bh := w, h
	switch ratio := float64(w) / float64(h); {
	case ratio < minRatio:
		bh = int(math.RoundToEven(float64(w) / minRatio))
	case ratio > maxRatio:
		bw = int(math.RoundToEven(float64(h) * maxRatio))
	}
	x, y := (w-bw)/2, (h-bh)/2
	return image.Rect(x, y, x+bw, y+bh).Add(bounds.Min)
}
