package main

import (
	"bytes"
	"io"
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
