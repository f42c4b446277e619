package main

// What gonum's plots lack for chart.go: bars on a logarithmic axis, ticks that have names, and a canvas whose fonts are
// the reader's.

import (
	"image/color"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

func newCanvas(width, height vg.Length) interface {
	vg.CanvasSizer
	io.WriterTo
} {
	return vgsvg.New(width, height)
}

// bars are those of one series, in units of the axes.
type bars struct {
	x, y                 []float64
	offset, width, floor float64
	colour               color.Color
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	trX, trY := p.Transforms(&c)
	for i, x := range b.x {
		left, right := trX(x+b.offset), trX(x+b.offset+0.9*b.width)
		bottom, top := trY(max(b.floor, p.Y.Min)), trY(b.y[i])
		c.FillPolygon(b.colour, []vg.Point{{X: left, Y: bottom}, {X: left, Y: top}, {X: right, Y: top}, {X: right, Y: bottom}})
	}
}

// DataRange implements plot.DataRanger.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	ymin, ymax = b.floor, b.floor
	if b.floor == 0 {
		ymax = 1e-9
	}
	for _, y := range b.y {
		ymax = max(ymax, y)
	}
	return math.Inf(1), math.Inf(-1), ymin, ymax
}

// Thumbnail implements plot.Thumbnailer.
func (b *bars) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.colour, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
}

// named are ticks at given places only. Where two are close on a logarithmic axis, the larger one keeps its name.
type named struct {
	names map[float64]string
	log   bool
}

// Ticks implements plot.Ticker.
func (n named) Ticks(lowest, highest float64) []plot.Tick {
	var ticks []plot.Tick
	for _, x := range slices.Sorted(maps.Keys(n.names)) {
		if k := len(ticks) - 1; k >= 0 && n.log && x < 3*ticks[k].Value {
			ticks[k].Label = ""
		}
		if x >= lowest && x <= highest {
			ticks = append(ticks, plot.Tick{Value: x, Label: n.names[x]})
		}
	}
	return ticks
}

// short are gonum's ticks, without zeros behind the point.
type short struct{}

// Ticks implements plot.Ticker.
func (short) Ticks(lowest, highest float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lowest, highest)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = strconv.FormatFloat(t.Value, 'f', -1, 32)
		}
	}
	return ticks
}

// decades are ticks at powers of ten, and smaller ones between.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(lowest, highest float64) []plot.Tick {
	var ticks []plot.Tick
	for d := math.Floor(math.Log10(lowest)); d <= math.Ceil(math.Log10(highest)); d++ {
		at := math.Pow(10, d)
		for k := 1.0; k < 10; k++ {
			if v := at * k; v >= lowest*0.999 && v <= highest*1.001 {
				label := ""
				if k == 1 {
					label = strconv.FormatFloat(at, 'f', -1, 64)
					if at >= 1000 {
						label = thousands(int64(at))
					}
				}
				ticks = append(ticks, plot.Tick{Value: v, Label: label})
			}
		}
	}
	return ticks
}
