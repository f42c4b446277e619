package main

// This file draws plots as SVG, on a white ground, so that they can be read on a dark page too.

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A chart is lines over numbers, or bars over categories.
type chart struct {
	xlabel, ylabel string
	logX, logY     bool
	bars           bool
	categories     []string // of bars: a series' x is the number of one
	series         []series
}

type series struct {
	name string
	x, y []float64
	thin bool // no marks: too many points
}

// peer says whether s is what something else does, for the series before it to be compared with.
func (s *series) peer() bool {
	return strings.Contains(s.name, "PyTorch") || strings.Contains(s.name, "torchvision")
}

// add leaves out what was not measured, and what a logarithm can't show.
func (s *series) add(x float64, v value) {
	if v.ok && v.v > 0 {
		s.x, s.y = append(s.x, x), append(s.y, v.v)
	}
}

// Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x40, 0x40, 0x40, 0xff}, {0x99, 0x99, 0x99, 0xff},
}

// svg draws the chart. It returns nil where there is nothing to draw.
func (c *chart) svg(title string) ([]byte, error) {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = c.xlabel, c.ylabel
	for _, style := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: style.Font.Size}
	}
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(13), vg.Points(8)
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(2)
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal.Color = color.Gray{0xdd}
	p.Add(grid)

	drawn := 0
	var err error
	if c.bars {
		drawn, err = c.addBars(p)
	} else {
		drawn, err = c.addLines(p)
	}
	if err != nil || drawn == 0 {
		return nil, err
	}
	if c.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	} else {
		p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, 1.05*p.Y.Max, short{}
	}
	// The legend stands to the right of the plot, so that it hides nothing.
	const width, height = 22 * vg.Centimeter, 11 * vg.Centimeter
	legend := p.Legend
	p.Legend = plot.NewLegend()
	canvas := newCanvas(width, height)
	area := draw.New(canvas)
	area.SetColor(color.White)
	area.Fill(area.Rectangle.Path())
	right := legend.Rectangle(area).Size().X + vg.Points(14)
	p.Draw(draw.Crop(area, vg.Points(4), -right, vg.Points(4), -vg.Points(4)))
	legend.Draw(draw.Crop(area, 0, -vg.Points(6), 0, -vg.Points(30)))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// Readers without these fonts have others of the same widths.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

func (c *chart) addLines(p *plot.Plot) (drawn int, err error) {
	ticks := map[float64]string{}
	colour, peers := -1, 0 // of PyTorch since the last of ours, whose colour they share
	for _, s := range c.series {
		if s.peer() {
			peers++
		} else {
			colour, peers = colour+1, 0
		}
		if len(s.x) == 0 {
			continue
		}
		drawn++
		points := make(plotter.XYs, len(s.x))
		for k := range s.x {
			points[k] = plotter.XY{X: s.x[k], Y: s.y[k]}
			ticks[s.x[k]] = fmt.Sprint(s.x[k])
			if c.logX {
				ticks[s.x[k]] = sizeText(sizeName(int(s.x[k])))
			}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return 0, err
		}
		line.Color, line.Width = palette[max(colour, 0)%len(palette)], vg.Points(1.8)
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(2.6)
		if peers > 0 {
			line.Dashes = []vg.Length{vg.Points(6 / float64(peers)), vg.Points(3)}
		}
		p.Add(line)
		if s.thin {
			line.Width = vg.Points(1)
			if drawn > 1 { // lines that should lie on one another
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(4)}
			}
			p.Legend.Add(plain(s.name), line)
		} else {
			p.Add(dots)
			p.Legend.Add(plain(s.name), line, dots)
		}
	}
	if drawn > 0 && !c.series[0].thin {
		p.X.Tick.Marker = named{ticks, c.logX}
	}
	if c.logX {
		p.X.Scale = plot.LogScale{}
	}
	return drawn, nil
}

func (c *chart) addBars(p *plot.Plot) (drawn int, err error) {
	var shown []series
	for _, s := range c.series {
		if len(s.x) > 0 {
			shown = append(shown, s)
		}
	}
	if len(shown) == 0 {
		return 0, nil
	}
	floor := math.Inf(1)
	for _, s := range shown {
		for _, y := range s.y {
			floor = min(floor, y)
		}
	}
	group := 0.8 // of the distance of two categories
	width := group / float64(len(shown))
	for i, s := range shown {
		b := &bars{x: s.x, y: s.y, offset: -group/2 + width*float64(i), width: width, colour: palette[i%len(palette)]}
		if c.logY {
			b.floor = math.Pow(10, math.Floor(math.Log10(floor)))
		}
		p.Add(b)
		p.Legend.Add(plain(s.name), b)
	}
	ticks := map[float64]string{}
	for i, name := range c.categories {
		ticks[float64(i)] = name
	}
	p.X.Tick.Marker = named{ticks, false}
	p.X.Min, p.X.Max = -0.5, float64(len(c.categories))-0.5
	return len(shown), nil
}

// plain is a column's name without Markdown.
func plain(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "`", "")) }
