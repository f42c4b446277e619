// A small data set in the form of MNIST's files, and what every test checks at its end.

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
	"github.com/pintensor/pin/pintensor/pintest"
)

// check fails t if it leaves a goroutine, a file or a pinned block behind.
func check(t testing.TB) {
	t.Helper()
	leak.Check(t)
	pintest.Check(t, pintensor.Default())
}

// bars returns n images that are easy to learn: noise, and a bright bar whose height is the digit.
func bars(n int, seed uint64) images {
	random := rand.New(rand.NewPCG(seed, 1))
	m := images{pixels: make([]byte, n*pixels), labels: make([]byte, n)}
	for i := range n {
		digit := random.IntN(classes)
		m.labels[i] = byte(digit)
		image := m.pixels[i*pixels : (i+1)*pixels]
		for k := range image {
			image[k] = byte(random.IntN(100))
			if row := k / width; row == 4+2*digit || row == 5+2*digit {
				image[k] = byte(155 + random.IntN(101))
			}
		}
	}
	return m
}

// idxFile returns data in the IDX format.
func idxFile(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeFiles writes the four files into a new folder, those for training compressed, and returns it.
func writeFiles(t testing.TB, train, test images) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "train-images-idx3-ubyte.gz"), zipped(t, idxFile(train.pixels, train.count(), height, width)))
	writeFile(t, filepath.Join(dir, "train-labels-idx1-ubyte.gz"), zipped(t, idxFile(train.labels, train.count())))
	writeFile(t, filepath.Join(dir, "t10k-images-idx3-ubyte"), idxFile(test.pixels, test.count(), height, width))
	writeFile(t, filepath.Join(dir, "t10k-labels-idx1-ubyte"), idxFile(test.labels, test.count()))
	return dir
}
