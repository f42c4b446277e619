// Data sets of files, through the loader too.

package idx_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/idx"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

func save(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// floats is a file of three float32.
func floats() []byte {
	b := []byte{0, 0, 0x0d, 1, 0, 0, 0, 3}
	for _, x := range []float32{1.5, -2, 3e9} {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func TestOpen(t *testing.T) {
	leak.Check(t)
	images := file([]uint32{3, 2, 2}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := idx.Open(save(t, "images.gz", zipped(t, images)), save(t, "plain", images), save(t, "floats", floats()))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"images uint8 (2, 2)", "plain uint8 (2, 2)", "floats float32 ()"} {
		f := s.Fields()[i]
		if got := fmt.Sprint(f.Name, " ", f.Dtype, " ", f.Shape); got != want {
			t.Errorf("field %d: %s, want %s", i, got, want)
		}
	}
	l, err := dataloader.New(s, dataloader.Config{BatchSize: 2, Pin: e})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(b.Host(0).Data(), b.Host(1).Data(), b.Host(2).Data()))
		}
	}
	want := []string{"[0 1 2 3 4 5 6 7] [0 1 2 3 4 5 6 7] [1.5 -2]", "[8 9 10 11] [8 9 10 11] [3e+09]"}
	if !slices.Equal(got, append(want, want...)) {
		t.Errorf("got %q, want %q twice", got, want)
	}
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), 1, rows.Row(0)); err != nil || dataloader.RowsValues[float32](rows, 2)[0] != -2 || !bytes.Equal(rows.Bytes(0), []byte{4, 5, 6, 7}) {
		t.Errorf("Read: %v, %v, %v", err, rows.Bytes(0), rows.Bytes(2))
	}
	if err := errors.Join(l.Close(), s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Read(t.Context(), 1, rows.Row(0)); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), "images.gz: sample 1: ") {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenTypes(t *testing.T) {
	leak.Check(t)
	for code, c := range map[byte]struct {
		elements []byte
		want     string
	}{
		0x08: {[]byte{0xff}, "uint8 [255]"},
		0x09: {[]byte{0xff}, "int8 [-1]"},
		0x0b: {[]byte{0x80, 1}, "int16 [-32767]"},
		0x0c: {[]byte{0, 1, 0, 2}, "int32 [65538]"},
		0x0d: {[]byte{0x3f, 0x80, 0, 0}, "float32 [1]"},
		0x0e: {[]byte{0xc0, 0, 0, 0, 0, 0, 0, 0}, "float64 [-2]"},
	} {
		s, err := idx.Open(save(t, "x", append([]byte{0, 0, code, 1, 0, 0, 0, 1}, c.elements...)))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := dataloader.MakeRows(s.Fields(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ReadBatch(t.Context(), []int{0}, rows); err != nil {
			t.Error(err)
		}
		var values any
		switch code {
		case 0x08:
			values = dataloader.RowsValues[uint8](rows, 0)
		case 0x09:
			values = dataloader.RowsValues[int8](rows, 0)
		case 0x0b:
			values = dataloader.RowsValues[int16](rows, 0)
		case 0x0c:
			values = dataloader.RowsValues[int32](rows, 0)
		case 0x0d:
			values = dataloader.RowsValues[float32](rows, 0)
		case 0x0e:
			values = dataloader.RowsValues[float64](rows, 0)
		}
		if got := fmt.Sprint(s.Fields()[0].Dtype, " ", values); got != c.want {
			t.Errorf("%#02x: %s, want %s", code, got, c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	leak.Check(t)
	good := file([]uint32{2, 2}, 1, 2, 3, 4)
	for want, data := range map[string][]byte{
		"truncated: 0 bytes of its magic number":           nil,
		"truncated: 3 bytes of elements, expected 4":       good[:len(good)-1],
		"data after the 4 bytes":                           append(bytes.Clone(good), 5),
		"truncated: 10 bytes of elements, expected 12":     floats()[:18],
		"element type 0x0a, expected 0x08":                 {0, 0, 0x0a, 1, 0, 0, 0, 0},
		"samples without elements":                         file([]uint32{2, 0}),
		"damaged gzip":                                     zipped(t, good)[:len(zipped(t, good))-3],
		"data after the 12 bytes":                          zipped(t, append(floats(), 1)),
		"3 samples (dimensions [3]), expected 2 as in ":    file([]uint32{3}, 1, 2, 3),
		"announce more than 1073741824 elements":           file([]uint32{1 << 31}),
		"truncated: 0 bytes of elements, expected 1073741": file([]uint32{1 << 20, 1 << 10}),
	} {
		path := save(t, "bad", data)
		_, err := idx.Open(save(t, "good", good), path)
		if !errors.Is(err, idx.ErrFormat) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "idx: "+path+": ") {
			t.Errorf("%v, want ErrFormat with %q and the path", err, want)
		}
	}
	if _, err := idx.Open("testdata/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := idx.Open(); err == nil {
		t.Error("no paths: no error")
	}
}

// A file that is truncated while it is open gives errors for the samples that are gone, which are skipped.
func TestOpenTruncatedLater(t *testing.T) {
	leak.Check(t)
	path := save(t, "x", file([]uint32{4, 1 << 16}, make([]byte, 4<<16)...))
	s, err := idx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Truncate(path, 2<<16+12); err != nil {
		t.Skip("this system keeps files that are open:", err)
	}
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l, err := dataloader.New(s, dataloader.Config{BatchSize: 4, Pin: e, OnError: dataloader.SkipErrors})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for b, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(b.Indices) != "[0 1]" || len(b.Skipped) != 2 || !strings.Contains(b.Skipped[1].Error(), path+": sample 3: the file was truncated") {
			t.Errorf("%v, skipped %v", b.Indices, b.Skipped)
		}
	}
}
