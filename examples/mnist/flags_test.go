package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	check(t)
	plot := filepath.Join(t.TempDir(), "loss.PNG")
	got, err := parseFlags(strings.Fields("-data d -epochs 3 -batch 1 -lr 0.5 -workers 4 -dtype float64 -model cnn -device cpu -save s -resume r -solver sgd -log-interval 7 -plot "+plot), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := config{data: "d", epochs: 3, batch: 1, learningRate: 0.5, workers: 4, seed: 1, dtype: "float64", model: "cnn", device: "cpu", solver: "sgd", interval: 7, save: "s", resume: "r", plot: plot}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, err = parseFlags(strings.Fields("-batch 256"), io.Discard); err != nil || got.solver != "adam" || got.learningRate != 0.001 {
		t.Errorf("solver %s, learning rate %v, %v, want adam and its usual rate", got.solver, got.learningRate, err)
	}
	if got, err = parseFlags(strings.Fields("-solver sgd -batch 128"), io.Discard); err != nil || got.learningRate != 0.2 {
		t.Errorf("learning rate %v, %v, want twice that of a batch of 64", got.learningRate, err)
	}
	if got, err = parseFlags([]string{"-seed", "18446744073709551615"}, io.Discard); err != nil || got.seed != math.MaxUint64 {
		t.Errorf("largest seed: %v, %v", got.seed, err)
	}
}

// The error must name the flag and the value. run must return it before it looks for any data.
func TestBadFlags(t *testing.T) {
	check(t)
	dir := t.TempDir()
	for args, want := range map[string]string{
		"-epochs 0":                       `"0" for flag -epochs: expected at least 1`,
		"-epochs many":                    `"many" for flag -epochs`,
		"-batch 0":                        `"0" for flag -batch: expected at least 1`,
		"-batch -64":                      `"-64" for flag -batch`,
		"-batch 99999999999999999999":     `"99999999999999999999" for flag -batch`,
		"-solver lion":                    `"lion" for flag -solver: expected sgd, momentum or adam`,
		"-log-interval 0":                 `"0" for flag -log-interval: expected at least 1`,
		"-lr 0":                           `"0" for flag -lr: expected a number above 0`,
		"-lr -1":                          `"-1" for flag -lr`,
		"-lr NaN":                         `"NaN" for flag -lr`,
		"-lr Inf":                         `"+Inf" for flag -lr`,
		"-workers -1":                     `"-1" for flag -workers: expected 0 to 4096`,
		"-workers 5000":                   `"5000" for flag -workers: expected 0 to 4096`,
		"-seed -1":                        `"-1" for flag -seed`,
		"-dtype int8":                     `"int8" for flag -dtype: expected float32 or float64`,
		"-model resnet":                   `"resnet" for flag -model: expected mlp, cnn or convnet`,
		"-plot loss.jpg":                  `"loss.jpg" for flag -plot: expected a name ending in .png`,
		"-plot " + dir + "/missing/a.png": `/missing/a.png" for flag -plot: expected a file in a folder that exists`,
		"-device tpu":                     `"tpu" for flag -device: expected auto, cuda or cpu`,
		"-save " + dir + "/missing/a":     `/missing/a" for flag -save: expected a file in a folder that exists`,
		"-gpu":                            "-gpu",
		"train":                           `argument "train"`,
	} {
		var out bytes.Buffer
		err := run(context.Background(), append([]string{"-data", dir}, strings.Fields(args)...), &out, &out)
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) || status(err) != 2 {
			t.Errorf("%s: error %v, want one of usage with %q", args, err, want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: printed %q, want the error alone", args, out.String())
		}
	}
}

// That a plot cannot be written must show before the training, and looking must change nothing.
func TestPlotIsCheckedFirst(t *testing.T) {
	check(t)
	dir := t.TempDir()
	folder, old, fresh := filepath.Join(dir, "folder.png"), filepath.Join(dir, "old.png"), filepath.Join(dir, "new.png")
	if err := errors.Join(os.Mkdir(folder, 0o777), os.WriteFile(old, []byte("old"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{old: "", fresh: "", folder: "a file, not a folder or device"} {
		if err := checkFile("plot", path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%d files afterwards, want the two from before (%v)", len(entries), err)
	}
	if data, err := os.ReadFile(old); err != nil || string(data) != "old" {
		t.Errorf("the old plot holds %q (%v)", data, err)
	}
	var refuses []string
	if runtime.GOOS == "linux" {
		refuses = append(refuses, "/proc/a.png") // to root, too
	}
	if runtime.GOOS != "windows" && os.Geteuid() != 0 {
		if err := errors.Join(os.Chmod(old, 0o444), os.Chmod(folder, 0o555)); err != nil {
			t.Fatal(err)
		}
		refuses = append(refuses, old, filepath.Join(folder, "a.png"))
	}
	for _, path := range refuses {
		if err := checkFile("plot", path); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "expected a file that can be written") {
			t.Errorf("%s: error %v, want one that it cannot be written", path, err)
		}
	}
}

func TestHelp(t *testing.T) {
	check(t)
	var out bytes.Buffer
	err := run(context.Background(), []string{"-h"}, &out, io.Discard)
	if !errors.Is(err, flag.ErrHelp) || status(err) != 0 {
		t.Errorf("error %v with status %d, want flag.ErrHelp with 0", err, status(err))
	}
	for _, name := range []string{"data", "epochs", "batch", "lr", "workers", "seed", "dtype", "model", "plot", "device", "save", "resume", "solver", "log-interval"} {
		if !strings.Contains(out.String(), "-"+name+" ") {
			t.Errorf("help lacks -%s:\n%s", name, &out)
		}
	}
}
