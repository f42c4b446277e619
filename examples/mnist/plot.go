// The curve of the loss, collected and drawn.

package main

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is the loss of the batches that were looked at, and the test accuracy after each epoch.
type curve struct {
	steps   int // batches so far
	at      []int
	losses  []float64 // of the batches at
	average float64   // exponential, of the losses
	smooth  []float64 // its value after each of the losses
	ends    []int     // how many batches there were when each epoch ended
	tests   []float64 // accuracy then, in percent
}

// memory is how many losses, about, the smoothed loss looks back.
const memory = 20

func (c *curve) add(loss float64) {
	c.at, c.losses = append(c.at, c.steps), append(c.losses, loss)
	c.average += (loss - c.average) / memory
	// The average begins at 0; this is what it lacks because of that (Kingma and Ba 2015, "bias correction").
	missing := math.Pow(1-1.0/memory, float64(len(c.losses)))
	c.smooth = append(c.smooth, c.average/(1-missing))
}

// smoothed is the latest smoothed loss, NaN before the first.
func (c *curve) smoothed() float64 {
	if len(c.smooth) == 0 {
		return math.NaN()
	}
	return c.smooth[len(c.smooth)-1]
}

func (c *curve) endEpoch(accuracy float64) {
	c.ends = append(c.ends, c.steps)
	c.tests = append(c.tests, accuracy)
}

var (
	pale = color.RGBA{R: 158, G: 202, B: 225, A: 255}
	blue = color.RGBA{R: 8, G: 81, B: 156, A: 255}
	gray = color.Gray{Y: 140}
)

// save draws the curve into the PNG file at path.
func (c *curve) save(path string) error {
	p := plot.New()
	p.Title.Text = "Loss while training"
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text = "batch"
	p.X.Tick.Marker = plot.TickerFunc(wholeTicks)
	p.Y.Label.Text = "cross-entropy"
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Legend.Top = true
	p.Legend.Padding = vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(8), -vg.Points(4)
	p.Add(plotter.NewGrid())

	if err := c.addLine(p, "a batch", c.losses, pale, 0.5); err != nil {
		return err
	}
	if err := c.addLine(p, fmt.Sprintf("mean of the last %d or so", memory), c.smooth, blue, 1.5); err != nil {
		return err
	}
	// By itself the plot would put 0 on an axis for values that are all the same, and a logarithm then
	// panics.
	p.X.Min, p.X.Max = 0, float64(c.steps)
	p.Y.Min, p.Y.Max = p.Y.Min/1.2, p.Y.Max*1.2
	if err := c.addEpochs(p); err != nil {
		return err
	}
	if err := p.Save(20*vg.Centimeter, 12*vg.Centimeter, path); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// wholeTicks gives an axis at most ten ticks, at multiples of 1, 2 or 5 times a power of ten.
func wholeTicks(from, to float64) []plot.Tick {
	step := math.Pow(10, math.Ceil(math.Log10(max(1, (to-from)/10))))
	for _, smaller := range []float64{step / 5, step / 2} {
		if smaller >= 1 && (to-from)/smaller <= 10 {
			step = smaller
			break
		}
	}
	var ticks []plot.Tick
	for v := math.Ceil(from/step) * step; v <= to; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprint(v)})
	}
	return ticks
}

// floor is the least loss that is drawn: a logarithmic axis has no 0.
const floor = 1e-6

func (c *curve) addLine(p *plot.Plot, name string, values []float64, shade color.Color, width float64) error {
	points := make(plotter.XYs, len(values))
	for i, v := range values {
		points[i] = plotter.XY{X: float64(c.at[i]), Y: max(v, floor)}
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	line.Color, line.Width = shade, vg.Points(width)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// addEpochs marks where each epoch ended, and what the test then gave.
func (c *curve) addEpochs(p *plot.Plot) error {
	for i, end := range c.ends {
		x := float64(end)
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: p.Y.Min}, {X: x, Y: p.Y.Max}})
		if err != nil {
			return fmt.Errorf("plot: %w", err)
		}
		line.Color, line.Dashes = gray, []vg.Length{vg.Points(3), vg.Points(3)}
		label, err := plotter.NewLabels(plotter.XYLabels{
			XYs:    plotter.XYs{{X: x, Y: p.Y.Min}},
			Labels: []string{fmt.Sprintf("test %.2f%% ", c.tests[i])},
		})
		if err != nil {
			return fmt.Errorf("plot: %w", err)
		}
		label.TextStyle[0].XAlign, label.TextStyle[0].YAlign = draw.XRight, draw.YBottom
		p.Add(line, label)
	}
	return nil
}
