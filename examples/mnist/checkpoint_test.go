package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var outcome = regexp.MustCompile(`loss \d+\.\d{4}, |test accuracy .*`)

// A training of four epochs, and one that was ended after two and resumed, come to the same.
func TestResume(t *testing.T) {
	check(t)
	dir, file := writeFiles(t, bars(130, 1), bars(50, 2)), filepath.Join(t.TempDir(), "checkpoint")
	for _, model := range []string{"mlp", "cnn"} {
		args := []string{"-batch", "16", "-seed", "3", "-device", "cpu", "-model", model}
		want := outcome.FindAllString(runs(t, dir, append(args, "-epochs", "4")...), -1)
		first := runs(t, dir, append(args, "-epochs", "2", "-save", file)...)
		second := runs(t, dir, append(args, "-epochs", "4", "-resume", file, "-save", file)...)
		if !strings.Contains(second, "\nresumed after epoch 2\nepoch 3/4") {
			t.Errorf("output of the resumed training:\n%s", second)
		}
		if got := append(outcome.FindAllString(first, -1), outcome.FindAllString(second, -1)...); len(want) != 8 || !slices.Equal(got, want) {
			t.Errorf("%s: with a break %q, without %q", model, got, want)
		}
		if third := runs(t, dir, append(args, "-epochs", "4", "-resume", file)...); strings.Contains(third, "epoch 5") || !strings.Contains(third, "resumed after epoch 4\nnothing is left to train: -epochs is 4\n") {
			t.Errorf("output of what is done:\n%s", third)
		}
	}
	if left, err := filepath.Glob(file + ".*"); err != nil || left != nil {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestResumeRefuses(t *testing.T) {
	check(t)
	dir, file := writeFiles(t, bars(20, 1), bars(5, 2)), filepath.Join(t.TempDir(), "checkpoint")
	runs(t, dir, "-batch", "4", "-epochs", "1", "-save", file)
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("not a checkpoint"), 0o600); err != nil {
		t.Fatal(err)
	}
	// What is known before the images are read, or looked for and downloaded, is said before.
	for args, early := range map[string]bool{"-model cnn -resume " + file: true, "-resume " + broken: true, "-resume " + file + "missing": true, "-resume " + file: false} {
		var out bytes.Buffer
		err := run(context.Background(), append([]string{"-data", dir + "/not-there"}, strings.Fields(args)...), &out, &out)
		if err == nil || strings.Contains(err.Error(), "checkpoint") != early || strings.Contains(err.Error(), "not-there") == early {
			t.Errorf("%s without images: error %v", args, err)
		}
	}
	for args, want := range map[string]string{
		"-batch 4 -model cnn -resume " + file:  "of -model mlp -dtype float32 -solver adam, not of -model cnn -dtype float32 -solver adam",
		"-batch 4 -solver sgd -resume " + file: "-solver adam, not of -model mlp -dtype float32 -solver sgd",
		"-batch 5 -resume " + file:             "checkpoint " + file,
		"-batch 4 -resume " + broken:           "checkpoint " + broken + ": not what -save writes, or cut off",
		"-batch 4 -resume " + file + "missing": "no such file",
	} {
		var out bytes.Buffer
		err := run(context.Background(), append([]string{"-data", dir}, strings.Fields(args)...), &out, &out)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
}
