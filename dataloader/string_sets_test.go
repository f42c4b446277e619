package dataloader_test

// What data sets of files print as: not as their whole index.

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/csvfile"
	"github.com/pintensor/pin/dataloader/idx"
	"github.com/pintensor/pin/dataloader/imagefolder"
	"github.com/pintensor/pin/dataloader/npy"
	"github.com/pintensor/pin/dataloader/tarshard"
	"github.com/pintensor/pin/dataloader/tokens"
	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

func TestSetsOfFilesPrintAsText(t *testing.T) {
	leak.Check(t)
	data := []byte("a,b\n1,2\n3,4\n")
	csv, err := csvfile.New(bytes.NewReader(data), int64(len(data)), "t.csv", csvfile.Config{Fields: []csvfile.Field{{Name: "x"}}})
	prints(t, csv, err, "csvfile.Set(2 records of t.csv)")

	data = make([]byte, 22)
	tok, err := tokens.New(bytes.NewReader(data), int64(len(data)), "t.bin", tokens.Config{Window: 5})
	prints(t, tok, err, "tokens.Set(2 windows of 5 of the 11 tokens of t.bin)")

	var b bytes.Buffer
	if err := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(3, 2)).WriteNpy(&b); err != nil {
		t.Fatal(err)
	}
	array, err := npy.New(bytes.NewReader(b.Bytes()), int64(b.Len()), "t.npy")
	prints(t, array, err, "npy.Set(3 samples of t.npy)")

	path := filepath.Join(t.TempDir(), "t.idx")
	if err := os.WriteFile(path, []byte{0, 0, 8, 1, 0, 0, 0, 2, 7, 8}, 0o600); err != nil {
		t.Fatal(err)
	}
	labels, err := idx.Open(path, path)
	prints(t, labels, err, fmt.Sprintf("idx.Set(2 samples of %s, %[1]s)", path))

	images, err := imagefolder.New(fstest.MapFS{"cat/1.png": {}, "dog/1.png": {}, "dog/2.png": {}}, "pets", imagefolder.Config{Height: 1, Width: 1})
	prints(t, images, err, "imagefolder.Set(3 images of 2 classes in pets)")

	b.Reset()
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "1.cls", Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	decode := func(context.Context, *tarshard.Sample, dataloader.Row) error { return nil }
	shards, err := tarshard.New(fstest.MapFS{"t.tar": {Data: b.Bytes()}}, []string{"t.tar"}, nil, decode)
	prints(t, shards, err, "tarshard.Set(1 samples in 1 shards from t.tar on)")
}

func prints(t *testing.T, set dataloader.Dataset, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(set); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c, ok := set.(interface{ Close() error }); ok {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
