package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A terminal gets a bar with the loss and the rate, and is left clean; results go elsewhere.
func TestBar(t *testing.T) {
	check(t)
	var results, terminal bytes.Buffer
	d := &display{results: &results, terminal: &terminal}
	p := d.start("epoch 1/1", 10)
	for range 5 {
		p.step(32, 0.25)
	}
	time.Sleep(redraw)
	p.step(32, 0.25)
	drawn := terminal.String()
	if !strings.Contains(drawn, "epoch 1/1  loss 0.2500") || !strings.Contains(drawn, "images/s") || !strings.Contains(drawn, "60%") {
		t.Errorf("bar %q", drawn)
	}
	p.stop()
	p.stop()
	if cleared := terminal.String()[len(drawn):]; strings.TrimSpace(cleared) != "" || !strings.HasSuffix(cleared, "\r") {
		t.Errorf("after the bar the terminal got %q, want blanks and a return", cleared)
	}
	if results.Len() > 0 {
		t.Errorf("progress among the results: %q", results.String())
	}
}

func TestDisplayKnowsTerminals(t *testing.T) {
	check(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, w := range []io.Writer{f, &bytes.Buffer{}} {
		if newDisplay(io.Discard, w).terminal != nil {
			t.Errorf("%T taken for a terminal", w)
		}
	}
}

// The smoothed loss is an average from the first batch on: constant losses stay what they are.
func TestCurveIsUnbiased(t *testing.T) {
	check(t)
	var c curve
	for range 200 {
		c.add(2.5)
		if got := c.smoothed(); math.Abs(got-2.5) > 1e-9 {
			t.Fatalf("after %d losses of 2.5 their average is %v", len(c.losses), got)
		}
	}
}

func TestSavePlot(t *testing.T) {
	check(t)
	for name, losses := range map[string][]float64{
		"one batch": {1},
		"equal":     {1, 1, 1},
		"zero":      {0, 0},
		"huge":      {1e30, 1e-30},
	} {
		var c curve
		for _, l := range losses {
			c.add(l)
		}
		c.endEpoch(50)
		if err := c.save(filepath.Join(t.TempDir(), "a.png")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var c curve
	c.add(1)
	if err := c.save(filepath.Join(t.TempDir(), "missing", "a.png")); err == nil {
		t.Error("saved into a folder that does not exist")
	}
}

func TestWholeTicks(t *testing.T) {
	check(t)
	for _, to := range []float64{0, 1, 3, 9, 11, 99, 938, 1876, 93800, 1e7} {
		ticks := wholeTicks(0, to)
		if len(ticks) < 1 || len(ticks) > 11 || to >= 3 && len(ticks) < 4 {
			t.Errorf("axis to %v: %d ticks", to, len(ticks))
		}
		for _, tick := range ticks {
			if tick.Value != math.Trunc(tick.Value) || tick.Value > to {
				t.Errorf("axis to %v: tick at %v", to, tick.Value)
			}
		}
	}
}
