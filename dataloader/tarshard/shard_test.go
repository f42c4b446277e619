package tarshard_test

// Shards made here, and what must come out of them.

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/tarshard"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

// pack makes a tar file of names and contents, one after the other. A name that ends in / is a folder.
func pack(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for pair := range slices.Chunk(files, 2) {
		h := &tar.Header{Name: pair[0], Size: int64(len(pair[1])), Mode: 0o600}
		if strings.HasSuffix(pair[0], "/") {
			h.Typeflag = tar.TypeDir
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write([]byte(pair[1]))
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

func gzipped(t testing.TB, data []byte) []byte {
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

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// text writes a sample for comparisons.
func text(s *tarshard.Sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", s.Key)
	for _, part := range slices.Sorted(maps.Keys(s.Files)) {
		fmt.Fprintf(&b, " %s=%s", part, s.Files[part])
	}
	return b.String()
}

// drain returns the samples of a stream, and its errors.
func drain(samples iter.Seq2[*tarshard.Sample, error]) (texts []string, errs []error) {
	for s, err := range samples {
		if (s == nil) == (err == nil) {
			panic("neither a sample nor an error")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		texts = append(texts, text(s))
	}
	return texts, errs
}

// collect reads all samples of a Set, backwards.
func collect(t testing.TB, fsys fs.FS, names ...string) ([]string, error) {
	t.Helper()
	var texts []string
	s, err := tarshard.New(fsys, names, []dataloader.Field{{Dtype: tensor.Byte}}, func(_ context.Context, s *tarshard.Sample, _ dataloader.Row) error {
		texts = append(texts, text(s))
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for i := range s.Len() {
		if err := s.Read(t.Context(), s.Len()-1-i, dataloader.Row{}); err != nil {
			t.Fatal(err)
		}
		if shard, key := s.Key(s.Len() - 1 - i); !slices.Contains(names, shard) || !strings.HasPrefix(texts[i], key+":") {
			t.Errorf("Key: %q, %q", shard, key)
		}
	}
	slices.Reverse(texts)
	return texts, nil
}

var webdataset = []string{
	"train/", "",
	"train/0001.jpg", "image1", "train/0001.CLS", "7", "train/0001.seg.PNG", "mask1",
	"train/0002.jpg", "image2", "train/0002.cls", "8",
	"readme", "no dot", ".hidden", "nothing before the dot", "train/._0002.jpg", "an Apple's",
	"__meta__/x.json", "meta", "__index__", "meta", "__loader__.json", "of no meta name",
	"0002.jpg", "other folder",
	"a.b/c.txt", "dots in folders are not those of the key",
	"train/0002.cls", "again, later: a sample of its own",
}

var webdatasetSamples = []string{
	"train/0001: cls=7 jpg=image1 seg.png=mask1",
	"train/0002: cls=8 jpg=image2",
	"__loader__: json=of no meta name",
	"0002: jpg=other folder",
	"a.b/c: txt=dots in folders are not those of the key",
	"train/0002: cls=again, later: a sample of its own",
}

func TestSamples(t *testing.T) {
	leak.Check(t)
	plain := pack(t, webdataset...)
	second := pack(t, "train/0002.cls", "in another shard")
	fsys := fstest.MapFS{
		"a.tar": {Data: plain}, "a.tar.gz": {Data: gzipped(t, plain)}, "a.tar.zst": {Data: zstandard(t, plain)},
		"wrong.tar": {Data: zstandard(t, plain)}, "b.tar": {Data: second}, "none.tar": {Data: pack(t)},
	}
	want := append(slices.Clone(webdatasetSamples), "train/0002: cls=in another shard")
	for _, name := range []string{"a.tar", "a.tar.gz", "a.tar.zst", "wrong.tar"} {
		got, errs := drain(tarshard.StreamFS(fsys, name, "none.tar", "b.tar"))
		if !slices.Equal(got, want) || errs != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, errs, want)
		}
	}
	if got, err := collect(t, fsys, "a.tar", "none.tar", "b.tar"); !slices.Equal(got, want) || err != nil {
		t.Errorf("Set: got %q, %v, want %q", got, err, want)
	}
	for _, name := range []string{"a.tar.gz", "wrong.tar"} {
		if _, err := collect(t, fsys, name); !errors.Is(err, tarshard.ErrFormat) || !strings.Contains(err.Error(), "tarshard: "+name+": ") || !strings.Contains(err.Error(), "use Stream") {
			t.Errorf("Set of %s: %v", name, err)
		}
	}
}

func TestFromDisk(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tar")
	if err := os.WriteFile(path, pack(t, webdataset...), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, errs := drain(tarshard.Stream(path)); !slices.Equal(got, webdatasetSamples) || errs != nil {
		t.Errorf("Stream: %q, %v", got, errs)
	}
	for range tarshard.Stream(path, path) { // which must close the file
		break
	}
	none := filepath.Join(dir, "none.tar")
	got, errs := drain(tarshard.Stream(none, path))
	if len(got) != len(webdatasetSamples) || len(errs) != 1 || !errors.Is(errs[0], fs.ErrNotExist) || !strings.Contains(errs[0].Error(), none) {
		t.Errorf("missing: %q, %v", got, errs)
	}
	if _, err := tarshard.Open([]string{path, none}, nil, func(context.Context, *tarshard.Sample, dataloader.Row) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := tarshard.Open([]string{path}, nil, nil); err == nil {
		t.Error("decode is nil: no error")
	}
	if _, err := tarshard.Open(nil, nil, func(context.Context, *tarshard.Sample, dataloader.Row) error { return nil }); err == nil {
		t.Error("no shards: no error")
	}
	if got, errs := drain(tarshard.Stream()); len(got) != 0 || len(errs) != 1 {
		t.Errorf("a stream of no shards: %q, %v", got, errs)
	}
	if got, err := collect(t, os.DirFS(dir), "a.tar"); !slices.Equal(got, webdatasetSamples) || err != nil {
		t.Errorf("os.DirFS: %q, %v", got, err)
	}
	if _, err := collect(t, os.DirFS(dir), "."); err == nil {
		t.Error("folder: no error")
	}
}

// Through the loader: shuffled, with one sample that cannot be decoded.
func TestLoader(t *testing.T) {
	leak.Check(t)
	var files []string
	for i := range 20 {
		label := fmt.Sprint(i)
		if i == 13 {
			label = "thirteen"
		}
		files = append(files, fmt.Sprintf("s%02d.cls", i), label, fmt.Sprintf("s%02d.txt", i), strings.Repeat("x", i*100))
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, pack(t, files...), 0o600); err != nil {
		t.Fatal(err)
	}
	fields := []dataloader.Field{{Name: "label", Dtype: tensor.Int64}, {Name: "length", Dtype: tensor.Int64}}
	s, err := tarshard.Open([]string{path}, fields, func(_ context.Context, s *tarshard.Sample, row dataloader.Row) error {
		if _, err := fmt.Sscan(string(s.Files["cls"]), &dataloader.Values[int64](row, 0)[0]); err != nil {
			return fmt.Errorf("cls %q: %w", s.Files["cls"], err)
		}
		dataloader.Values[int64](row, 1)[0] = int64(len(s.Files["txt"]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l, err := dataloader.New(s, dataloader.Config{BatchSize: 6, Shuffle: true, Workers: 3, Pin: e, OnError: dataloader.SkipErrors})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for batch, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			labels, lengths := batch.Host(0).Data().([]int64), batch.Host(1).Data().([]int64)
			for k, i := range batch.Indices {
				if labels[k] != int64(i) || lengths[k] != int64(100*i) {
					t.Errorf("sample %d: label %d, length %d", i, labels[k], lengths[k])
				}
			}
			for _, skipped := range batch.Skipped {
				if want := "tarshard: " + path + ": s13: cls \"thirteen\""; skipped.Index != 13 || !strings.Contains(skipped.Error(), want) {
					t.Errorf("skipped: %v, want %s", skipped, want)
				}
			}
		}
	}
	if got := l.Stats().Skipped; got != 10 {
		t.Errorf("Stats.Skipped = %d", got)
	}
	if err := errors.Join(l.Close(), s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Read(t.Context(), 3, dataloader.Row{}); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), path) {
		t.Errorf("after Close: %v", err)
	}
}

// A stream of shards, one of which was cut off, through the loader.
func TestStreamThroughLoader(t *testing.T) {
	leak.Check(t)
	var files []string
	for i := range 30 {
		files = append(files, fmt.Sprintf("s%02d.cls", i), fmt.Sprint(i))
	}
	whole := pack(t, files...)
	fsys := fstest.MapFS{"0": {Data: whole}, "1": {Data: zstandard(t, whole)}, "2": {Data: whole[:10*1024+513]}, "3": {Data: gzipped(t, whole)}}
	set, err := dataloader.FromStream(dataloader.Source[*tarshard.Sample]{
		Fields: []dataloader.Field{{Dtype: tensor.Int64}}, Shards: 4, Interleave: 2,
		Open: func(_ context.Context, _, shard int) iter.Seq2[*tarshard.Sample, error] {
			return tarshard.StreamFS(fsys, fmt.Sprint(shard))
		},
		Read: func(_ context.Context, s *tarshard.Sample, row dataloader.Row) error {
			_, err := fmt.Sscan(string(s.Files["cls"]), &dataloader.Values[int64](row, 0)[0])
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l, err := dataloader.New(set, dataloader.Config{BatchSize: 8, Shuffle: true, Workers: 3, Pin: e, OnError: dataloader.SkipErrors})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(map[int64]int)
	for batch, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range batch.Host(0).Data().([]int64) {
			seen[i]++
		}
		for _, s := range batch.Skipped {
			if !errors.Is(s, tarshard.ErrFormat) || !strings.Contains(s.Error(), "tarshard: 2: s10.cls: not a readable shard: truncated") {
				t.Errorf("skipped: %v", s)
			}
		}
	}
	for i := range int64(30) {
		want := 3
		if i < 10 {
			want = 4
		}
		if seen[i] != want {
			t.Errorf("sample %d came %d times, want %d", i, seen[i], want)
		}
	}
	if got := l.Stats().Skipped; got != 1 {
		t.Errorf("Stats.Skipped = %d", got)
	}
}

func TestExpand(t *testing.T) {
	leak.Check(t)
	for pattern, want := range map[string]string{
		"a.tar":                   "a.tar",
		"":                        "",
		"t-{0..3}.tar":            "t-0.tar t-1.tar t-2.tar t-3.tar",
		"t-{008..011}":            "t-008 t-009 t-010 t-011",
		"{9..10}":                 "9 10",
		"{train,val}-{00..01}.gz": "train-00.gz train-01.gz val-00.gz val-01.gz",
		"{a}":                     "a",
		"x{,.gz}":                 "x x.gz",
	} {
		got, err := tarshard.Expand(pattern)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %s", pattern, got, err, want)
		}
	}
	for pattern, want := range map[string]string{
		"a{0..1": "without its }", "a{{0..1}}": "with another in it", "{3..1}": "the first not larger", "{a..b}": "two numbers", "{0..}": "two numbers",
		"{-1..2}": "two numbers", "{0..1000000}": "at most 1000000", "{0..99999999999999999999}": "two numbers", "{0..9999}{0..9999}": "more than 1000000 names",
	} {
		if got, err := tarshard.Expand(pattern); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "tarshard: ") {
			t.Errorf("%s: %d names, %v, want %s", pattern, len(got), err, want)
		}
	}
}
