package npy_test

// Files that nobody should have written.

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/npy"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

// file returns a file of version 1 with the given dictionary and elements.
func file(dict string, elements ...byte) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(dict)))
	return append(append(b, dict...), elements...)
}

func shaped(descr, shape string, elements ...byte) []byte {
	return file(fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape), elements...)
}

func TestRefuses(t *testing.T) {
	leak.Check(t)
	good := shaped("|u1", "(3,)", 1, 2, 3)
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":                {nil, "truncated: 0 bytes of its magic number"},
		"text":                 {[]byte("<html><body>404 not found"), `magic number "<html>"`},
		"half a magic number":  {good[:4], "truncated: 4 bytes"},
		"version 0":            {append([]byte("\x93NUMPY\x00\x00"), good[8:]...), "format version 0.0"},
		"version 4":            {append([]byte("\x93NUMPY\x04\x01"), good[8:]...), "format version 4.1"},
		"version 2, cut":       {append([]byte("\x93NUMPY\x02\x00"), 1, 2, 3), "truncated: 11 bytes"},
		"huge header":          {append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), good[10:]...), "a header of 4294967295 bytes"},
		"header cut":           {good[:30], "truncated: 20 bytes of its header, expected"},
		"elements cut":         {good[:len(good)-1], "truncated: 2 bytes of elements, expected 3 for shape (3,) of uint8"},
		"elements too many":    {append(bytes.Clone(good), 9), "1 bytes after the 3 bytes of elements"},
		"huge shape":           {shaped("<f4", "(1000000000000, 3)", 1), "truncated: 1 bytes of elements, expected 12000000000000"},
		"product of 2^64":      {shaped("<f4", "(4294967296, 4294967296)", 1), "more than 9223372036854775807 bytes"},
		"length of 2^64":       {shaped("<f4", "(18446744073709551616,)", 1), "expected a length"},
		"negative":             {shaped("<f4", "(-1,)", 1), "expected a length"},
		"dimensions":           {shaped("<f4", "("+strings.Repeat("1,", 65)+")", 1, 2, 3, 4), "65 dimensions"},
		"no order":             {shaped("|f4", "(1,)", 1, 2, 3, 4), "no byte order"},
		"no type":              {shaped("", "(1,)", 1), `element type ""`},
		"no such type":         {shaped("<f16", "(1,)", 1), `element type "<f16"`},
		"shape is a number":    {shaped("|u1", "3", 1, 2, 3), "header"},
		"shape does not end":   {file("{'descr': '|u1', 'fortran_order': False, 'shape': (3,"), "expected a length"},
		"nothing":              {file(""), "expected '{'"},
		"no shape":             {file("{'descr': '|u1', 'fortran_order': False}"), `no "shape"`},
		"two shapes":           {file("{'shape': (1,), 'shape': (2,)}"), `"shape" is there twice`},
		"unknown key":          {file("{'colour': 'red'}"), `the unknown key "colour"`},
		"fortran is a number":  {file("{'fortran_order': 1}"), "expected True or False"},
		"string does not end":  {file("{'descr': '<f4"), "expected a string that ends"},
		"escapes":              {file(`{'descr': '\x3cf4'}`), "without escapes"},
		"after the dictionary": {file("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)} import os", 1), `"import os" after the dictionary`},
		"no comma":             {file("{'descr': '|u1' 'fortran_order': False}"), "expected '}'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := npy.New(bytes.NewReader(c.in), int64(len(c.in)), "bad.npy")
			if !errors.Is(err, npy.ErrFormat) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "npy: bad.npy: ") {
				t.Errorf("error %v, want ErrFormat with %q", err, c.want)
			}
		})
	}
}

// An error of the reader itself says nothing about the format.
func TestPassesErrorsOn(t *testing.T) {
	leak.Check(t)
	broken := errors.New("disk on fire")
	good := shaped("|u1", "(3,)", 1, 2, 3)
	for limit := range 80 {
		r := failing{bytes.NewReader(good), int64(limit), broken}
		s, err := npy.New(r, int64(len(good)), "x")
		if err == nil {
			rows, _ := dataloader.MakeRows(s.Fields(), 3)
			err = s.ReadBatch(t.Context(), []int{0, 1, 2}, rows)
		}
		if limit < len(good) && (!errors.Is(err, broken) || errors.Is(err, npy.ErrFormat)) {
			t.Errorf("after %d bytes: %v, want %v alone", limit, err, broken)
		}
	}
}

// failing is a reader that fails at a limit.
type failing struct {
	r     *bytes.Reader
	limit int64
	err   error
}

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.limit {
		return 0, f.err
	}
	return f.r.ReadAt(p, off)
}

// A sample that cannot be read is skipped and counted, where the loader is told to.
func TestSkipErrors(t *testing.T) {
	leak.Check(t)
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	in := shaped("|b1", "(4, 2)", 0, 1, 1, 1, 0, 7, 1, 0)
	s, err := npy.New(bytes.NewReader(in), int64(len(in)), "flags.npy")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	loader, err := dataloader.New(s, dataloader.Config{BatchSize: 4, Pin: e, OnError: dataloader.SkipErrors})
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(batch.Indices, batch.Host(0).Data()); got != "[0 1 3] [false true true true true false]" {
			t.Errorf("batch %s", got)
		}
		if len(batch.Skipped) != 1 || batch.Skipped[0].Index != 2 || !strings.Contains(batch.Skipped[0].Error(), "npy: flags.npy: sample 2: not a readable NumPy file: a bool of value 7, expected 0 or 1") {
			t.Errorf("skipped: %v", batch.Skipped)
		}
	}
	if got := loader.Stats().Skipped; got != 1 {
		t.Errorf("Stats.Skipped = %d", got)
	}
}

// A file that is truncated while it is open gives errors for the samples that are gone, and only for them.
func TestTruncatedWhileOpen(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "x.npy")
	in := shaped("|u1", "(32, 65536)", make([]byte, 32<<16)...)
	if err := os.WriteFile(path, in, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := npy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Truncate(path, 20<<16); err != nil {
		t.Skip("this system keeps files that are open:", err)
	}
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), 10, rows.Row(0)); err != nil {
		t.Error(err)
	}
	if err := s.Read(t.Context(), 25, rows.Row(0)); err == nil || !strings.Contains(err.Error(), "x.npy: sample 25: the file was truncated") {
		t.Errorf("sample that is gone: %v", err)
	}
}

func archive(t testing.TB, method uint16, entries map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range entries {
		e, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = e.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRefusesArchives(t *testing.T) {
	leak.Check(t)
	good := shaped("|u1", "(3,)", 1, 2, 3)
	stored := archive(t, zip.Store, map[string][]byte{"x.npy": good})
	deflated := archive(t, zip.Deflate, map[string][]byte{"x.npy": good})
	flipped := bytes.Clone(deflated)
	flipped[40] ^= 0xff
	method := bytes.ReplaceAll(bytes.ReplaceAll(stored, []byte("PK\x01\x02\x14\x00\x14\x00\x08\x00\x00"), []byte("PK\x01\x02\x14\x00\x14\x00\x08\x00\x63")), nil, nil)
	lying := bytes.Clone(stored)
	at := bytes.Index(lying, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lying[at+20:], 1<<30) // compressed and uncompressed size
	binary.LittleEndian.PutUint32(lying[at+24:], 1<<30)
	bomb := bytes.Clone(deflated)
	at = bytes.Index(bomb, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(bomb[at+24:], 0xfffffff0)
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":       {nil, "damaged zip"},
		"cut":         {stored[:len(stored)-30], "damaged zip"},
		"no entries":  {archive(t, zip.Store, nil), "without entries"},
		"not arrays":  {archive(t, zip.Store, map[string][]byte{"readme.txt": []byte("this is a text")}), "bad.npz: readme.txt: not a readable NumPy file: magic"},
		"damaged":     {flipped, "bad.npz: x.npy: not a readable NumPy file: damaged zip"},
		"method":      {method, "compression method 99"},
		"size lies":   {lying, "before the end of the archive"},
		"bomb":        {bomb, "damaged zip"},
		"entry short": {archive(t, zip.Deflate, map[string][]byte{"x.npy": good[:len(good)-1]}), "bad.npz: x.npy: not a readable NumPy file: truncated: 2 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := npy.NewNPZ(bytes.NewReader(c.in), int64(len(c.in)), "bad.npz")
			runtime.ReadMemStats(&after)
			if !errors.Is(err, npy.ErrFormat) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "npy: bad.npz: ") {
				t.Errorf("error %v, want ErrFormat with %q", err, c.want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
				t.Errorf("allocated %d bytes", got)
			}
		})
	}
}

// check reads what was accepted, which must work, and reports errors that are no ErrFormat.
func check(t *testing.T, s *npy.Set, err error) {
	if err != nil {
		if !errors.Is(err, npy.ErrFormat) {
			t.Errorf("error %v is no ErrFormat, although reading cannot fail", err)
		}
		return
	}
	defer s.Close()
	if s.Len() == 0 {
		return
	}
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, s.Len() - 1} {
		if err := s.Read(t.Context(), i, rows.Row(0)); err != nil && !errors.Is(err, npy.ErrFormat) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
}

func FuzzNew(f *testing.F) {
	for _, name := range []string{"big_c8", "images", "version2", "records", "bool", "fortran"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".npy"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := npy.New(bytes.NewReader(in), int64(len(in)), "fuzz")
		check(t, s, err)
	})
}

func FuzzNewNPZ(f *testing.F) {
	for _, name := range []string{"stored", "deflated"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".npz"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := npy.NewNPZ(bytes.NewReader(in), int64(len(in)), "fuzz")
		check(t, s, err)
	})
}

var _ io.ReaderAt = failing{}
