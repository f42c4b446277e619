// What the user sees while the network trains: a bar on a terminal, a few lines elsewhere.

package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/pintensor/pin/pintensor"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	redraw = 100 * time.Millisecond // of the bar, at most so often
	lines  = 5                      // an epoch, where there is no terminal
)

// display writes results to one stream and, where that is a terminal, progress to another.
type display struct {
	results  io.Writer
	terminal io.Writer // for bars; nil: there are lines among the results instead
	err      error     // the first that writing results gave
}

func newDisplay(stdout, stderr io.Writer) *display {
	d := &display{results: stdout}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		d.terminal = stderr
	}
	return d
}

func (d *display) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(d.results, format, args...); d.err == nil {
		d.err = err
	}
}

// pinned says what memory the batches were in.
func pinned(s pintensor.Stats) string {
	if s.Cold == 0 {
		return "no batches were read"
	}
	text := fmt.Sprintf("batches in %.1f MB of pinned memory (%s)", float64(s.Lent.Peak)/1e6, s.Locking)
	if s.Unlocked > 0 {
		text += fmt.Sprintf(", %d of %d blocks not page-locked: %s", s.Unlocked, s.Cold, s.LockError)
	}
	return text
}

// progress is how far an epoch has come.
type progress struct {
	display       *display
	name          string
	bar           *progressbar.ProgressBar // nil without a terminal
	done, batches int
	images        int
	begin         time.Time
}

// start begins an epoch of the given number of batches.
func (d *display) start(name string, batches int) *progress {
	p := &progress{display: d, name: name, batches: batches, begin: time.Now()}
	if d.terminal != nil {
		p.bar = progressbar.NewOptions(batches,
			progressbar.OptionSetWriter(d.terminal),
			progressbar.OptionSetDescription(name),
			progressbar.OptionSetWidth(20), // with the text, 80 columns
			progressbar.OptionThrottle(redraw),
			progressbar.OptionClearOnFinish())
	}
	return p
}

// step reports one more batch, and the loss of late, NaN if it is not known yet.
func (p *progress) step(images int, loss float64) {
	known := ""
	if !math.IsNaN(loss) {
		known = fmt.Sprintf("  loss %.4f", loss)
	}
	before := p.done * lines / p.batches
	p.done++
	p.images += images
	switch {
	case p.bar != nil:
		p.bar.Add(1) // an error is one of the terminal's, and spoils the bar only
		p.bar.Describe(fmt.Sprintf("%s%s  %.0f images/s", p.name, known, p.rate()))
	case p.done*lines/p.batches > before && p.done < p.batches:
		p.display.printf("%s  %d%%%s  %.0f images/s\n", p.name, 100*p.done/p.batches, known, p.rate())
	}
}

// rate is images a second since the start.
func (p *progress) rate() float64 { return float64(p.images) / time.Since(p.begin).Seconds() }

// stop takes the bar off the terminal. It may be called again.
func (p *progress) stop() {
	if p.bar != nil {
		p.bar.Finish()
		p.bar = nil
	}
}
