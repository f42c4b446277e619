package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

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
	if err := c.save(filepath.Join(t.TempDir(), "missing", "a.png")); err == nil || !strings.HasPrefix(err.Error(), "plot: ") {
		t.Errorf("saved into a folder that does not exist: %v", err)
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
