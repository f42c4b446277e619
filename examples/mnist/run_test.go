package main

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/tensor"
)

var accuracyLine = regexp.MustCompile(`(?m)^test accuracy \d+\.\d\d%$`)

// runs runs the program on dir and returns what it wrote to stdout.
func runs(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if err := run(context.Background(), append([]string{"-data", dir}, args...), &out, &errs); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	if errs.Len() > 0 {
		t.Errorf("%v: stderr is no terminal, but got %q", args, errs.String())
	}
	return out.String()
}

func TestRun(t *testing.T) {
	check(t)
	dir := writeFiles(t, bars(330, 1), bars(103, 2))
	plot := filepath.Join(t.TempDir(), "loss.png")
	out := runs(t, dir, "-batch", "32", "-epochs", "4", "-solver", "sgd", "-lr", "0.05", "-log-interval", "3", "-plot", plot)
	if !strings.HasPrefix(out, "330 training and 103 test images from "+dir+"\n") {
		t.Errorf("first line of\n%s", out)
	}
	accuracies := accuracyLine.FindAllString(out, -1)
	if len(accuracies) != 4 || accuracies[3] != "test accuracy 100.00%" {
		t.Errorf("accuracies %q, want 4, and at last all right\n%s", accuracies, out)
	}
	if n := strings.Count(out, "% of the time waiting for data\n"); n != 4 {
		t.Errorf("%d summaries of epochs, want 4\n%s", n, out)
	}
	// After 3, 5, 7 and 9 of 11 batches, a fifth more has been done.
	if got := strings.Join(regexp.MustCompile(`epoch 1/4  \d+%`).FindAllString(out, -1), ", "); got != "epoch 1/4  27%, epoch 1/4  45%, epoch 1/4  63%, epoch 1/4  81%" {
		t.Errorf("progress lines %q in\n%s", got, out)
	}
	if !regexp.MustCompile(`\nbatches in \d+\.\d MB of pinned memory .*\n$`).MatchString(out) {
		t.Errorf("last line of\n%s", out)
	}
	f, err := os.Open(plot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if picture, err := png.Decode(f); err != nil || picture.Bounds().Dx() < 500 {
		t.Errorf("plot: %v", err)
	}
}

// How many goroutines prepare the batches, and how they are scheduled, must not show in the result.
func TestRunIsReproducible(t *testing.T) {
	check(t)
	dir := writeFiles(t, bars(130, 1), bars(50, 2))
	timings := regexp.MustCompile(`in [0-9.]+s|[0-9.]+ µs a step|\d+ images/s|[0-9.]+% of|[0-9.]+ MB`)
	result := func(args ...string) string {
		return timings.ReplaceAllString(runs(t, dir, append(args, "-batch", "16")...), "")
	}
	first := result("-workers", "1", "-seed", "7")
	for range 3 {
		if again := result("-workers", "4", "-seed", "7"); again != first {
			t.Errorf("same seed, other result:\n%s\n%s", first, again)
		}
	}
}

// The seed is that of the order, in which one epoch differs from the next, and that of the weights.
func TestSeed(t *testing.T) {
	check(t)
	order := func(seed uint64, shuffle bool) []int {
		loader, err := newLoader[float32](config{batch: 8, seed: seed}, bars(40, 1), tensor.Shape{pixels}, nil, shuffle, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer loader.Close()
		var indices []int
		for range 2 {
			for b, err := range loader.Batches(context.Background()) {
				if err != nil {
					t.Fatal(err)
				}
				indices = append(indices, b.Indices...)
			}
		}
		return indices
	}
	seven := order(7, true)
	if !slices.Equal(seven, order(7, true)) || slices.Equal(seven, order(8, true)) || slices.Equal(seven[:40], seven[40:]) {
		t.Errorf("order of two epochs: %v", seven)
	}
	if plain := order(7, false); !slices.IsSorted(plain[:40]) || !slices.IsSorted(plain[40:]) {
		t.Errorf("order without shuffling: %v", plain)
	}
	// One image has only one order, so here the weights make the difference.
	dir := writeFiles(t, bars(1, 1), bars(1, 2))
	loss := func(seed string) string {
		return regexp.MustCompile(`loss \d+\.\d+`).FindString(runs(t, dir, "-batch", "1", "-epochs", "1", "-seed", seed))
	}
	if seven := loss("7"); seven == "" || seven != loss("7") || seven == loss("8") {
		t.Errorf("%s with seed 7, %s with seed 8", seven, loss("8"))
	}
}

// Every sample is trained on and tested, whatever the batch size.
func TestRunSizes(t *testing.T) {
	check(t)
	for _, c := range []struct {
		train, test int
		args        string
	}{
		{1, 1, "-batch 1"},
		{5, 1, "-batch 5"},
		{5, 6, "-batch 4"},
		{9, 3, "-batch 8 -model cnn"},
		{9, 3, "-batch 1 -model cnn -dtype float64 -lr 0.001"},
		{9, 30, "-batch 8 -dtype float64"},
	} {
		dir := writeFiles(t, bars(c.train, 1), bars(c.test, 2))
		out := runs(t, dir, append(strings.Fields(c.args), "-epochs", "1")...)
		if len(accuracyLine.FindAllString(out, -1)) != 1 {
			t.Errorf("%+v:\n%s", c, out)
		}
	}
}

func TestRunErrors(t *testing.T) {
	check(t)
	dir := writeFiles(t, bars(40, 1), bars(10, 2))
	for args, want := range map[string]struct {
		text   string
		is     error
		status int
	}{
		"-batch 41":                                         {`"41" for flag -batch: expected at most the 40 training images`, errUsage, 2},
		"-batch 8 -solver sgd -lr 1e30":                     {"epoch 1/2: the loss is NaN", nil, 1},
		"-batch 8 -data " + dir + "/not-there":              {"not-there", fs.ErrNotExist, 1},
		"-batch 8 -data " + dir + "/t10k-labels-idx1-ubyte": {"t10k-labels-idx1-ubyte", nil, 1},
	} {
		var out bytes.Buffer
		err := run(context.Background(), append([]string{"-data", dir}, strings.Fields(args)...), &out, &out)
		if err == nil || !strings.Contains(err.Error(), want.text) || status(err) != want.status {
			t.Errorf("%s: error %v (status %d), want %q and %d", args, err, status(err), want.text, want.status)
		}
		if want.is != nil && !errors.Is(err, want.is) {
			t.Errorf("%s: error %v is not %v", args, err, want.is)
		}
	}
}

// cancelAfter cancels when text is written to it.
type cancelAfter struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (w *cancelAfter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.cancel()
	}
	return n, err
}

// A run that is interrupted says what it was doing and what it had reached, and writes its plot.
func TestInterrupt(t *testing.T) {
	check(t)
	dir := writeFiles(t, bars(100, 1), bars(100, 2))
	for after, want := range map[string]string{
		"test images from":  "interrupted while training, epoch 1/1000000",
		"epoch 1/1000000  ": "interrupted while training, epoch 1/1000000",
		"waiting for data":  "interrupted while testing, epoch 1/1000000",
		"test accuracy":     "interrupted while training, epoch 2/1000000; the test accuracy after epoch 1 was ",
	} {
		plot := filepath.Join(t.TempDir(), "loss.png")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		out := &cancelAfter{text: after, cancel: cancel}
		err := run(ctx, []string{"-data", dir, "-batch", "4", "-epochs", "1000000", "-log-interval", "2", "-plot", plot}, out, &bytes.Buffer{})
		if err == nil || !strings.HasPrefix(err.Error(), want) || status(err) != 130 {
			t.Errorf("after %q: error %q with status %d, want %q with 130", after, err, status(err), want)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("after %q: error of several lines %q", after, err)
		}
		if _, err := os.Stat(plot); after != "test images from" && err != nil {
			t.Errorf("after %q: %v", after, err)
		}
	}
}

// Nothing is trained, and nothing said about training, where Ctrl-C comes while the files are read.
func TestInterruptWhileReading(t *testing.T) {
	check(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	err := run(ctx, []string{"-data", writeFiles(t, bars(10, 1), bars(10, 2)), "-batch", "4"}, &out, &out)
	if err == nil || err.Error() != "interrupted while reading the MNIST files" || status(err) != 130 || out.Len() > 0 {
		t.Errorf("error %v with status %d, output %q", err, status(err), &out)
	}
}

// An error leaves no half-drawn bar on the terminal, where it would be written over.
func TestErrorTakesBarAway(t *testing.T) {
	check(t)
	var terminal bytes.Buffer
	cfg := config{device: "cpu", solver: "sgd", batch: 8, epochs: 1, learningRate: 1e30, model: "mlp", interval: 1}
	err := fit[float32](context.Background(), cfg, nil, bars(80, 1), bars(8, 2), &display{results: io.Discard, terminal: &terminal})
	if err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Fatalf("error %v, want one about NaN", err)
	}
	if drawn := terminal.String(); !strings.Contains(drawn, "epoch 1/1") || !strings.HasSuffix(drawn, " \r") {
		t.Errorf("the terminal got %q, want a bar and then blanks", drawn)
	}
}

// brokenPipe refuses to be written to.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, fs.ErrClosed }

func TestRunReportsWriteErrors(t *testing.T) {
	check(t)
	dir := writeFiles(t, bars(8, 1), bars(8, 2))
	if err := run(context.Background(), []string{"-data", dir, "-batch", "8"}, brokenPipe{}, &bytes.Buffer{}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("error %v, want that of writing", err)
	}
}
