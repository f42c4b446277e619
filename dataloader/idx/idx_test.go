// Every way in which a file can differ from its header, and the fuzzer that looks for more.

package idx_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pintensor/pin/dataloader/idx"
	"github.com/pintensor/pin/internal/leak"
)

// file returns the bytes of an IDX file with the given dimensions and elements.
func file(dims []uint32, data ...byte) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	return append(b, data...)
}

func zipped(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRead(t *testing.T) {
	leak.Check(t)
	for name, want := range map[string]idx.Array{
		"vector":      {Dims: []int{3}, Data: []byte{7, 0, 255}},
		"images":      {Dims: []int{2, 1, 3}, Data: []byte{1, 2, 3, 4, 5, 6}},
		"no elements": {Dims: []int{0, 28, 28}, Data: []byte{}},
		"big":         {Dims: []int{5, 1 << 20}, Data: slices.Repeat([]byte{1, 2, 3, 4, 5}, 1<<20)}, // in several chunks
	} {
		t.Run(name, func(t *testing.T) {
			var dims []uint32
			for _, d := range want.Dims {
				dims = append(dims, uint32(d))
			}
			plain := file(dims, want.Data...)
			for kind, b := range map[string][]byte{"plain": plain, "gzip": zipped(t, plain)} {
				got, err := idx.Read(iotest.HalfReader(bytes.NewReader(b)))
				if err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				if !slices.Equal(got.Dims, want.Dims) || !bytes.Equal(got.Data, want.Data) {
					t.Errorf("%s: got dims %v and %d bytes, want %v and %d", kind, got.Dims, len(got.Data), want.Dims, len(want.Data))
				}
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	leak.Check(t)
	good := file([]uint32{2, 2}, 1, 2, 3, 4)
	packed := zipped(t, good)
	flipped := bytes.Clone(packed)
	flipped[len(flipped)-5] ^= 1 // in the checksum: found only by reading to the end
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"empty":                  {nil, "truncated: 0 bytes of its magic number, expected 4"},
		"half a magic number":    {good[:2], "truncated: 2 bytes of its magic number, expected 4"},
		"text":                   {[]byte("<html><body>404"), "magic number 0x3c68746d, expected it to begin with two zero bytes"},
		"floats":                 {[]byte{0, 0, 0x0d, 1, 0, 0, 0, 0}, "element type 0x0d, expected 0x08"},
		"no dimensions":          {[]byte{0, 0, 8, 0}, "0 dimensions, expected at least 1"},
		"half the dimensions":    {good[:9], "truncated: 5 bytes of its dimensions, expected 8"},
		"one element missing":    {good[:len(good)-1], "truncated: 3 bytes of elements, expected 4"},
		"one element too many":   {append(bytes.Clone(good), 5), "data after the 4 bytes that its header [2 2] announces"},
		"huge":                   {file([]uint32{1 << 31}, 1), "more than 1073741824 elements"},
		"huge product":           {file([]uint32{1 << 20, 1 << 20}, 1), "dimensions [1048576] with 1048576 announce more than 1073741824 elements"},
		"product of 2^64":        {file([]uint32{1 << 30, 1 << 30, 16}, 1), "more than 1073741824 elements"},
		"gzip header":            {packed[:5], "damaged gzip"},
		"gzip cut in data":       {packed[:len(packed)-12], "damaged gzip"},
		"gzip cut in trailer":    {packed[:len(packed)-3], "damaged gzip"},
		"gzip checksum":          {flipped, "damaged gzip"},
		"gzip, then garbage":     {append(bytes.Clone(packed), "garbage"...), "damaged gzip"},
		"gzip, then more gzip":   {append(bytes.Clone(packed), packed...), "data after"},
		"gzip of something else": {zipped(t, []byte("not this")), "magic number"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := idx.Read(bytes.NewReader(c.in))
			if !errors.Is(err, idx.ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrFormat with %q", err, c.want)
			}
		})
	}
}

// An error of the reader itself says nothing about the format.
func TestReadPassesErrorsOn(t *testing.T) {
	leak.Check(t)
	broken := errors.New("disk on fire")
	whole := zipped(t, file([]uint32{2, 2}, 1, 2, 3, 4))
	for n := range whole {
		in := func() *errorAfter { return &errorAfter{whole[:n], broken} }
		if _, err := idx.Read(in()); !errors.Is(err, broken) || errors.Is(err, idx.ErrFormat) {
			t.Errorf("after %d bytes: error %v, want %v alone", n, err, broken)
		}
	}
}

// errorAfter gives its bytes, and then err.
type errorAfter struct {
	left []byte
	err  error
}

func (r *errorAfter) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, r.err
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

func TestReadFileNamesTheFile(t *testing.T) {
	leak.Check(t)
	path := filepath.Join(t.TempDir(), "train-labels")
	if _, err := idx.ReadFile(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: error %v, want fs.ErrNotExist with the path", err)
	}
	if err := os.WriteFile(path, file([]uint32{3}, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := idx.ReadFile(path); !errors.Is(err, idx.ErrFormat) || !strings.Contains(err.Error(), path) {
		t.Errorf("short file: error %v, want ErrFormat with the path", err)
	}
	if _, err := idx.ReadFile(filepath.Dir(path)); err == nil || errors.Is(err, idx.ErrFormat) {
		t.Errorf("directory: error %v, want one of reading", err)
	}
}

// A header that announces 1 GiB, before a few bytes, must not cost a gigabyte.
func TestReadAllocatesWhatIsThere(t *testing.T) {
	leak.Check(t)
	in := file([]uint32{1 << 30}, make([]byte, 1000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := idx.Read(bytes.NewReader(in)); !errors.Is(err, idx.ErrFormat) {
		t.Fatalf("error %v, want ErrFormat", err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("allocated %d bytes for a file of %d", got, len(in))
	}
}

func FuzzRead(f *testing.F) {
	good := file([]uint32{2, 2}, 1, 2, 3, 4)
	f.Add(good)
	f.Add(zipped(f, good))
	f.Add(good[:7])
	f.Add(file([]uint32{1 << 31, 1 << 31}))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := idx.Read(bytes.NewReader(in))
		if err != nil {
			if !errors.Is(err, idx.ErrFormat) {
				t.Errorf("error %v is no ErrFormat, although reading cannot fail", err)
			}
			return
		}
		// What was accepted must come out again when it is written and read.
		var dims []uint32
		n := 1
		for _, d := range a.Dims {
			dims = append(dims, uint32(d))
			n *= d
		}
		if n != len(a.Data) {
			t.Fatalf("dims %v with %d elements", a.Dims, len(a.Data))
		}
		again, err := idx.Read(bytes.NewReader(file(dims, a.Data...)))
		if err != nil || !slices.Equal(again.Dims, a.Dims) || !bytes.Equal(again.Data, a.Data) {
			t.Errorf("written and read again: %v, %v", again, err)
		}
	})
}
