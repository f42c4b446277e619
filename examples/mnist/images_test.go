package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pintensor/pin/dataloader/idx"
)

func TestLoad(t *testing.T) {
	check(t)
	wantTrain, wantTest := bars(7, 1), bars(3, 2)
	train, test, err := load(writeFiles(t, wantTrain, wantTest))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]images{"train": {train, wantTrain}, "test": {test, wantTest}} {
		if !bytes.Equal(c[0].pixels, c[1].pixels) || !bytes.Equal(c[0].labels, c[1].labels) {
			t.Errorf("%s: %d images read differ from the %d written", name, c[0].count(), c[1].count())
		}
	}
}

// Each damage is to one file, and the error must name that file and say what is wrong.
func TestLoadRefuses(t *testing.T) {
	check(t)
	const trainImages, testLabels = "train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"
	m := bars(3, 1)
	wholeImages := idxFile(m.pixels, 3, height, width)
	packed := zipped(t, wholeImages)
	for name, c := range map[string]struct {
		file    string
		content []byte // nil: the file is missing
		want    string
		is      error
	}{
		"missing":          {trainImages, nil, "nor without .gz", fs.ErrNotExist},
		"empty":            {trainImages, []byte{}, "truncated: 0 bytes of its magic number", idx.ErrFormat},
		"truncated":        {trainImages, wholeImages[:2000], "truncated: 1984 bytes of elements, expected 2352", idx.ErrFormat},
		"truncated gzip":   {trainImages, packed[:len(packed)/2], "truncated", idx.ErrFormat},
		"more data":        {trainImages, append(bytes.Clone(wholeImages), 0), "data after", idx.ErrFormat},
		"a web page":       {trainImages, []byte("<!DOCTYPE html>"), "magic number", idx.ErrFormat},
		"labels as images": {trainImages, idxFile(m.labels, 3), "dimensions [3], expected some images of [28 28]", nil},
		"no images":        {trainImages, idxFile(nil, 0, height, width), "dimensions [0 28 28]", nil},
		"other size":       {trainImages, idxFile(m.pixels, 6, 14, width), "dimensions [6 14 28]", nil},
		"images as labels": {testLabels, idxFile(m.pixels, 3, height, width), "dimensions [3 28 28], expected [3]", nil},
		"a label too few":  {testLabels, idxFile(m.labels[:2], 2), "dimensions [2], expected [3], a label for each image", nil},
		"no such digit":    {testLabels, idxFile([]byte{1, 10, 2}, 3), "label 10 of image 1, expected 0 to 9", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, m, m)
			path := filepath.Join(dir, c.file)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if c.content != nil {
				writeFile(t, path, c.content)
			}
			_, _, err := load(dir)
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q and %q", err, path, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v is not %v", err, c.is)
			}
		})
	}
}
