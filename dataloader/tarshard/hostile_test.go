package tarshard_test

// Shards that are damaged, cut off, or made to harm.

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pintensor/pin/dataloader/tarshard"
	"github.com/pintensor/pin/internal/leak"
)

var small = []string{"a.jpg", strings.Repeat("image", 150), "a.cls", "1", "b.jpg", "picture", "b.cls", "2"}

// Wherever a shard is cut off, it is told, and what came before is whole.
func TestCutAnywhere(t *testing.T) {
	leak.Check(t)
	plain := pack(t, small...)
	end := len(plain) - 1024 // where the mark of the end begins
	want, _ := drain(tarshard.StreamFS(fstest.MapFS{"x": {Data: plain}}, "x"))
	if len(want) != 2 {
		t.Fatalf("%q", want)
	}
	for name, whole := range map[string][]byte{"tar": plain, "gz": gzipped(t, plain), "zst": zstandard(t, plain)} {
		step := 1
		if name == "tar" {
			step = 7
		}
		for n := 0; n < len(whole); n += step {
			if name == "tar" && n >= end+512 {
				break // half of the mark is enough
			}
			fsys := fstest.MapFS{"x": {Data: whole[:n]}, "next": {Data: plain}}
			got, errs := drain(tarshard.StreamFS(fsys, "x", "next"))
			if len(errs) != 1 || !errors.Is(errs[0], tarshard.ErrFormat) || !strings.HasPrefix(errs[0].Error(), "tarshard: x: ") {
				t.Fatalf("%s cut after %d of %d bytes: errors %v", name, n, len(whole), errs)
			}
			if cut := got[:max(0, len(got)-2)]; !slices.Equal(cut, want[:min(len(cut), 2)]) || !slices.Equal(got[len(cut):], want) {
				t.Fatalf("%s cut after %d bytes: samples %q", name, n, got)
			}
			if name == "tar" {
				if cut := n - 512; cut >= 0 && cut < 750 && !strings.HasPrefix(errs[0].Error(), "tarshard: x: a.jpg: not a readable shard: truncated") {
					t.Fatalf("tar cut after %d bytes, in a.jpg: %v", n, errs)
				}
				if got, err := collect(t, fsys, "x"); !errors.Is(err, tarshard.ErrFormat) || !strings.HasPrefix(err.Error(), "tarshard: x: ") {
					t.Fatalf("Set of tar cut after %d bytes: %q, %v", n, got, err)
				}
			}
		}
	}
}

// Set names the file too that a shard ends in.
func TestCutInFile(t *testing.T) {
	leak.Check(t)
	fsys := fstest.MapFS{"x": {Data: pack(t, small...)[:1000]}}
	const want = "tarshard: x: a.jpg: not a readable shard: truncated: 488 bytes, expected 750"
	if _, err := collect(t, fsys, "x"); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// counting is a file system that counts the files that are open.
type counting struct {
	fs.FS
	open *int
}

func (c counting) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	*c.open++
	return countedFile{f, c.open}, nil
}

type countedFile struct {
	fs.File
	open *int
}

func (f countedFile) Close() error {
	*f.open--
	return f.File.Close()
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	return f.File.(io.ReaderAt).ReadAt(p, off)
}

// However a loop ends, and whatever is wrong with a shard, it is closed.
func TestClosesShards(t *testing.T) {
	leak.Check(t)
	plain := pack(t, small...)
	open := 0
	fsys := counting{fstest.MapFS{"good": {Data: plain}, "cut": {Data: plain[:1000]}, "empty": {}, "zst": {Data: zstandard(t, plain)}}, &open}
	for range tarshard.StreamFS(fsys, "good", "cut", "empty", "zst") {
		if open != 1 {
			t.Errorf("%d shards are open in a loop", open)
		}
	}
	for range tarshard.StreamFS(fsys, "zst") {
		break
	}
	if open != 0 {
		t.Errorf("%d shards are open after loops", open)
	}
	for _, name := range []string{"good", "cut", "empty", "zst"} {
		if _, err := collect(t, fsys, "good", name); (err == nil) != (name == "good") {
			t.Errorf("%s: %v", name, err)
		}
		if open != 0 {
			t.Errorf("%s: %d shards are open after Close", name, open)
		}
	}
}

// corrupt is a shard whose bytes from at on are replaced.
func corrupt(whole []byte, at int, with string) []byte {
	b := bytes.Clone(whole)
	copy(b[at:], with)
	return b
}

// header is the header of a file of any size, without its contents.
func header(t testing.TB, h tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDamaged(t *testing.T) {
	leak.Check(t)
	plain := pack(t, small...)
	zipped, packed := gzipped(t, plain), zstandard(t, plain)
	many := make([]string, 0, 2060)
	for i := range 1030 {
		many = append(many, fmt.Sprintf("a.%d", i), "")
	}
	for name, c := range map[string]struct {
		in      []byte
		samples int
		want    string
	}{
		"text":           {bytes.Repeat([]byte("<html>404"), 100), 0, "x: not a readable shard: damaged: "},
		"header":         {corrupt(plain, 1536+512+512+100, "zzzz"), 0, "x: after a.cls: not a readable shard: damaged: "},
		"gzip":           {corrupt(zipped, len(zipped)/2, "zzzz"), 0, "x: "},
		"gzip checksum":  {corrupt(zipped, len(zipped)-6, "zz"), 1, "x: after b.cls: not a readable shard: damaged: "},
		"zstd":           {corrupt(packed, len(packed)/2, "zzzzzzzz"), 0, "x: not a readable shard: damaged: "},
		"zstd checksum":  {corrupt(packed, len(packed)-3, "zz"), 0, "x: not a readable shard: damaged: "},
		"zstd window":    {[]byte("\x28\xb5\x2f\xfd\x00\xf8xxxxxxxxxxxx"), 0, "x: not a readable shard: damaged: window size exceeded"},
		"too large":      {header(t, tar.Header{Name: "a.jpg", Size: 1 << 40}), 0, "x: a.jpg: not a readable shard: 1099511627776 bytes, with which its sample has more than 536870912"},
		"large":          {header(t, tar.Header{Name: "a.jpg", Size: 1 << 29}), 0, "x: a.jpg: not a readable shard: truncated"},
		"twice":          {pack(t, "a.jpg", "1", "a.JPG", "2", "a.cls", "3", "b.jpg", "4"), 1, `x: a.JPG: not a readable shard: its sample "a" has a "jpg" already`},
		"many files":     {pack(t, many...), 0, "x: a.1024: not a readable shard: a sample of more than 1024 files"},
		"zstd, no frame": {[]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"), 0, "x: not a readable shard: truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, errs := drain(tarshard.StreamFS(fstest.MapFS{"x": {Data: c.in}}, "x"))
			runtime.ReadMemStats(&after)
			if len(errs) == 0 || !errors.Is(errs[0], tarshard.ErrFormat) || !strings.HasPrefix(errs[0].Error(), "tarshard: "+c.want) || len(got) != c.samples {
				t.Errorf("%q, %v, want %d samples and %s", got, errs, c.samples, c.want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
				t.Errorf("allocated %d bytes", got)
			}
			if _, err := collect(t, fstest.MapFS{"x": {Data: c.in}}, "x"); !errors.Is(err, tarshard.ErrFormat) {
				t.Errorf("Set: %v", err)
			}
		})
	}
}

// Files with holes are refused, and what comes after them is found.
func TestSparse(t *testing.T) {
	leak.Check(t)
	h := header(t, tar.Header{Name: "a.jpg", Size: 4, Format: tar.FormatGNU, Typeflag: tar.TypeReg})
	h[156] = tar.TypeGNUSparse
	copy(h[386:], "00000000000\x0000000000004\x00") // one piece, of 4 bytes
	copy(h[483:], "00000000004\x00")                // of 4 bytes in all
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	whole := append(append(append(h, "data"...), make([]byte, 508)...), pack(t, "b.jpg", "more")...)
	fsys := fstest.MapFS{"x": {Data: whole}}
	const want = "tarshard: x: a.jpg: not a readable shard: a sparse file"
	got, errs := drain(tarshard.StreamFS(fsys, "x"))
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) || !slices.Equal(got, []string{"b: jpg=more"}) {
		t.Errorf("Stream: %q, %v", got, errs)
	}
	if _, err := collect(t, fsys, "x"); !errors.Is(err, tarshard.ErrFormat) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Set: %v", err)
	}
}

// An error of the file system says nothing about the shard.
func TestPassesErrorsOn(t *testing.T) {
	leak.Check(t)
	broken := errors.New("disk on fire")
	plain := pack(t, small...)
	for name, whole := range map[string][]byte{"tar": plain, "gz": gzipped(t, plain), "zst": zstandard(t, plain)} {
		for n := 0; n < len(whole); n += 1 + len(whole)/200 {
			_, errs := drain(tarshard.StreamFS(failing{whole[:n], broken}, "x"))
			if len(errs) != 1 || !errors.Is(errs[0], broken) || errors.Is(errs[0], tarshard.ErrFormat) || !strings.Contains(errs[0].Error(), "tarshard: x: ") {
				t.Errorf("%s, after %d bytes: %v, want %v alone", name, n, errs, broken)
			}
		}
	}
	if _, err := collect(t, failing{plain, broken}, "x"); err == nil || !strings.Contains(err.Error(), "cannot be read at any place") {
		t.Errorf("Set of a file that is no io.ReaderAt: %v", err)
	}
}

// failing is a file system with one file, which fails after some bytes.
type failing struct {
	data []byte
	err  error
}

func (f failing) Open(string) (fs.File, error) {
	file, err := fstest.MapFS{"x": {Data: f.data}}.Open("x")
	if err != nil {
		return nil, err
	}
	return failingFile{file, f.err}, nil
}

type failingFile struct {
	fs.File
	err error
}

func (f failingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

func FuzzStream(f *testing.F) {
	plain := pack(f, small[2:]...)
	f.Add(plain)
	f.Add(gzipped(f, plain))
	f.Add(zstandard(f, plain))
	f.Add(plain[:1500])
	f.Fuzz(func(t *testing.T, in []byte) {
		fsys := fstest.MapFS{"x": {Data: in}}
		got, errs := drain(tarshard.StreamFS(fsys, "x"))
		for _, err := range errs {
			if !errors.Is(err, tarshard.ErrFormat) {
				t.Errorf("error %v is no ErrFormat, although reading cannot fail", err)
			}
		}
		indexed, err := collect(t, fsys, "x")
		switch {
		case err != nil && !errors.Is(err, tarshard.ErrFormat):
			t.Errorf("Set: error %v is no ErrFormat", err)
		case err == nil && (errs != nil || !slices.Equal(got, indexed)):
			t.Errorf("Set: %q; Stream: %q, %v", indexed, got, errs)
		}
	})
}
