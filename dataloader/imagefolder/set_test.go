package imagefolder_test

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/imagefolder"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/pintensor"
)

//go:embed testdata
var testdata embed.FS

func file(t testing.TB, name string) *fstest.MapFile {
	t.Helper()
	data, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: data}
}

// plain is a PNG of one colour.
func plain(t testing.TB, c color.Color, w, h int) *fstest.MapFile {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.Set(x, y, c)
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: b.Bytes()}
}

// The order of classes and samples is that of torchvision.datasets.ImageFolder: classes sorted, then folders, then files.
func TestOrder(t *testing.T) {
	leak.Check(t)
	img := file(t, "in_420.jpg")
	fsys := fstest.MapFS{
		"dog/b.jpg": img, "dog/a.png": img, "Cat/z.JPEG": img, "Cat/10.jpg": img, "Cat/9.jpg": img,
		"dog/a/1.jpg": img, "dog/a-b/2.jpg": img, "dog/a/c/3.jpg": img, "dog/z.jpg": img,
		"dog/notes.txt": {}, "dog/jpg": {}, "readme.jpg": img, "dog/x.jpg.txt": {},
	}
	s, err := imagefolder.New(fsys, "pets", imagefolder.Config{Height: 2, Width: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Classes(); !slices.Equal(got, []string{"Cat", "dog"}) {
		t.Errorf("classes %q", got)
	}
	var paths []string
	var labels []int
	for i := range s.Len() {
		paths = append(paths, s.Path(i))
		labels = append(labels, s.Class(i))
	}
	want := "pets/Cat/10.jpg pets/Cat/9.jpg pets/Cat/z.JPEG " +
		"pets/dog/a.png pets/dog/b.jpg pets/dog/z.jpg pets/dog/a/1.jpg pets/dog/a/c/3.jpg pets/dog/a-b/2.jpg"
	wantSorted := strings.Fields(want)
	// "dog/a-b" sorts before "dog/a/c" and after "dog/a", as Python sorts the strings.
	wantSorted[6], wantSorted[7], wantSorted[8] = "pets/dog/a/1.jpg", "pets/dog/a-b/2.jpg", "pets/dog/a/c/3.jpg"
	if !slices.Equal(paths, wantSorted) {
		t.Errorf("paths\n%q, want\n%q", paths, wantSorted)
	}
	if got := fmt.Sprint(labels); got != "[0 0 0 1 1 1 1 1 1]" {
		t.Errorf("labels %s", got)
	}
}

func TestLinks(t *testing.T) {
	leak.Check(t)
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "x.png"), plain(t, color.White, 3, 3).Data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "class")); err != nil {
		t.Skip("no links here:", err)
	}
	cfg := imagefolder.Config{Height: 1, Width: 1}
	if err := os.Symlink(filepath.Join(elsewhere, "nothing"), filepath.Join(elsewhere, "y.png")); err != nil {
		t.Fatal(err)
	}
	s, err := imagefolder.Open(dir, cfg)
	if err != nil || s.Len() != 1 || s.Path(0) != dir+"/class/x.png" {
		t.Fatalf("%v, %v", s, err)
	}
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), 0, rows.Row(0)); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(elsewhere, "circle")); err != nil {
		t.Fatal(err)
	}
	if _, err := imagefolder.Open(dir, cfg); err == nil || !strings.Contains(err.Error(), "do links make a circle") && !strings.Contains(err.Error(), "too many") {
		t.Errorf("circle: %v", err)
	}
}

// one reads sample 0.
func one(t testing.TB, fsys fs.FS, cfg imagefolder.Config) (dataloader.Rows, *imagefolder.Set) {
	t.Helper()
	s, err := imagefolder.New(fsys, "x", cfg)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), 0, rows.Row(0)); err != nil {
		t.Fatal(err)
	}
	return rows, s
}

// Where each value of an image goes, and what it becomes.
func TestLayoutAndValues(t *testing.T) {
	leak.Check(t)
	m := image.NewNRGBA(image.Rect(0, 0, 2, 2))
	for i := range 4 {
		for c := range 3 {
			m.Pix[4*i+c] = byte(10*i + c + 1)
		}
		m.Pix[4*i+3] = 128 // which is dropped
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{"a/x.png": {Data: b.Bytes()}}
	base := imagefolder.Config{Height: 2, Width: 2, Dtype: tensor.Uint8}
	for name, c := range map[string]struct {
		change func(*imagefolder.Config)
		shape  string
		want   []byte
	}{
		"CHW":       {func(*imagefolder.Config) {}, "(3, 2, 2)", []byte{1, 11, 21, 31, 2, 12, 22, 32, 3, 13, 23, 33}},
		"HWC":       {func(c *imagefolder.Config) { c.HWC = true }, "(2, 2, 3)", []byte{1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 33}},
		"flipped":   {func(c *imagefolder.Config) { c.Flip = 1 }, "(3, 2, 2)", []byte{11, 1, 31, 21, 12, 2, 32, 22, 13, 3, 33, 23}},
		"gray":      {func(c *imagefolder.Config) { c.Gray = true }, "(1, 2, 2)", []byte{2, 12, 22, 32}},
		"gray, HWC": {func(c *imagefolder.Config) { c.Gray, c.HWC = true, true }, "(2, 2, 1)", []byte{2, 12, 22, 32}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			c.change(&cfg)
			rows, s := one(t, fsys, cfg)
			if got := fmt.Sprint(s.Fields()[imagefolder.Image].Shape); got != c.shape {
				t.Errorf("shape %s, want %s", got, c.shape)
			}
			if got := dataloader.RowsValues[uint8](rows, imagefolder.Image); !slices.Equal(got, c.want) {
				t.Errorf("bytes %v, want %v", got, c.want)
			}
			cfg.Dtype = tensor.Dtype{}
			cfg.Mean, cfg.Std = []float32{0.5, 0.25, 0}, []float32{0.5, 1, 2}
			if cfg.Gray {
				cfg.Mean, cfg.Std = cfg.Mean[:1], cfg.Std[:1]
			}
			rows, _ = one(t, fsys, cfg)
			for k, got := range dataloader.RowsValues[float32](rows, imagefolder.Image) {
				channel := k / 4
				if cfg.HWC {
					channel = k % len(cfg.Mean)
				}
				want := float32((float64(c.want[k])/255 - float64(cfg.Mean[channel])) / float64(cfg.Std[channel]))
				if got != want {
					t.Errorf("value %d: %v, want %v", k, got, want)
				}
			}
		})
	}
	rows, _ := one(t, fsys, imagefolder.Config{Height: 2, Width: 2})
	if got := dataloader.RowsValues[float32](rows, imagefolder.Image)[3]; math.Abs(float64(got)-31.0/255) > 1e-7 {
		t.Errorf("not normalised: %v", got)
	}
}

// Crops and flips follow from the seed, the epoch and the sample.
func TestChanceIsTheLoaders(t *testing.T) {
	leak.Check(t)
	fsys := fstest.MapFS{}
	for i := range 8 {
		fsys[fmt.Sprintf("c%d/x.jpg", i%3)] = file(t, "in_444.jpg")
		fsys[fmt.Sprintf("c%d/y%d.png", i%3, i)] = file(t, "in_rgb.png")
	}
	for _, crop := range []imagefolder.Crop{imagefolder.RandomCrop, imagefolder.RandomResizedCrop} {
		s, err := imagefolder.New(fsys, "x", imagefolder.Config{Height: 6, Width: 5, Crop: crop, Flip: 0.5, Dtype: tensor.Uint8})
		if err != nil {
			t.Fatal(err)
		}
		epoch := func(cfg dataloader.Config) (sums []uint32) {
			e, err := pintensor.NewEngine()
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			cfg.Pin = e
			l, err := dataloader.New(s, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for batch, err := range l.Batches(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				for image := range slices.Chunk(batch.Host(imagefolder.Image).Data().([]byte), 6*5*3) {
					sums = append(sums, crc32.ChecksumIEEE(image))
				}
				labels := batch.Host(imagefolder.Label).Data().([]int64)
				for k, i := range batch.Indices {
					if int(labels[k]) != s.Class(i) {
						t.Errorf("sample %d: label %d", i, labels[k])
					}
				}
			}
			return sums
		}
		first := epoch(dataloader.Config{BatchSize: 3, Seed: 5, Workers: 1})
		if again := epoch(dataloader.Config{BatchSize: 3, Seed: 5, Workers: 4}); !slices.Equal(first, again) {
			t.Errorf("%v: with other workers: %x, %x", crop, first, again)
		}
		if other := epoch(dataloader.Config{BatchSize: 3, Seed: 6}); slices.Equal(first, other) {
			t.Errorf("%v: with another seed the same", crop)
		}
	}
}

func TestRefusesConfig(t *testing.T) {
	leak.Check(t)
	fsys := fstest.MapFS{"a/x.png": plain(t, color.White, 2, 2)}
	nan := float32(math.NaN())
	for want, cfg := range map[string]imagefolder.Config{
		"Config.Height = 0":             {Width: 2},
		"Config.Width = 100000":         {Height: 2, Width: 100000},
		"Config.Crop = 9":               {Height: 2, Width: 2, Crop: 9},
		"Config.Resize = 3: want 4":     {Height: 2, Width: 4, Resize: 3},
		"Config.Resize = 3: want 0":     {Height: 2, Width: 2, Resize: 3, Crop: imagefolder.Squash},
		"Config.Scale = [0.5 1]":        {Height: 2, Width: 2, Scale: [2]float64{0.5, 1}},
		"Config.Scale = [0.5 0.1]":      {Height: 2, Width: 2, Scale: [2]float64{0.5, 0.1}, Crop: imagefolder.RandomResizedCrop},
		"Config.Flip = 2":               {Height: 2, Width: 2, Flip: 2},
		"Config.Flip = NaN":             {Height: 2, Width: 2, Flip: math.NaN()},
		"Config.Dtype = int64":          {Height: 2, Width: 2, Dtype: tensor.Int64},
		"Config.MaxPixels = -1":         {Height: 2, Width: 2, MaxPixels: -1},
		"Config.Mean = [1]":             {Height: 2, Width: 2, Mean: []float32{1}},
		"Config.Std = [1 1 1]: want 1":  {Height: 2, Width: 2, Std: []float32{1, 1, 1}, Gray: true},
		"Config.Std = [1 0 1]":          {Height: 2, Width: 2, Std: []float32{1, 0, 1}},
		"Config.Mean = [0 0 NaN]":       {Height: 2, Width: 2, Mean: []float32{0, 0, nan}},
		"Config.Mean = [0 0 0]: want n": {Height: 2, Width: 2, Mean: []float32{0, 0, 0}, Dtype: tensor.Uint8},
	} {
		if _, err := imagefolder.New(fsys, "x", cfg); err == nil || !strings.HasPrefix(err.Error(), "imagefolder: "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := imagefolder.New(nil, "x", imagefolder.Config{Height: 2, Width: 2}); err == nil {
		t.Error("no file system: no error")
	}
}

func TestRefusesFolders(t *testing.T) {
	leak.Check(t)
	cfg := imagefolder.Config{Height: 2, Width: 2}
	if _, err := imagefolder.Open(filepath.Join(t.TempDir(), "none"), cfg); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none") {
		t.Errorf("missing: %v", err)
	}
	dir := t.TempDir()
	if _, err := imagefolder.Open(dir, cfg); err == nil || !strings.Contains(err.Error(), "no folders in it") || !strings.Contains(err.Error(), dir) {
		t.Errorf("empty: %v", err)
	}
	fsys := fstest.MapFS{"a/x.png": plain(t, color.White, 2, 2), "b/notes.txt": {}}
	if _, err := imagefolder.New(fsys, "pets", cfg); err == nil || err.Error() != `imagefolder: pets: no .jpg, .jpeg or .png files in the folder of class "b"` {
		t.Errorf("class without images: %v", err)
	}
}

// bomb is a PNG of a few bytes that announces more pixels than fit.
func bomb(t testing.TB) *fstest.MapFile {
	b := bytes.Clone(plain(t, color.White, 2, 2).Data)
	b[16], b[20] = 0x3f, 0x3f // the highest bytes of width and height
	crc := crc32.ChecksumIEEE(b[12:29])
	b[29], b[30], b[31], b[32] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	return &fstest.MapFile{Data: b}
}

// Bad files are skipped and counted where the loader is told to, and say what is wrong.
func TestBadFiles(t *testing.T) {
	leak.Check(t)
	jpg, pic := file(t, "in_progressive.jpg").Data, file(t, "in_rgba.png").Data
	flipped := bytes.Clone(pic)
	flipped[len(flipped)/2] ^= 0x55
	bad := map[string]struct {
		data []byte
		want string
	}{
		"a/empty.jpg":    {nil, `0 bytes that begin with "", expected a JPEG or PNG file`},
		"a/text.jpg":     {[]byte("<html>404"), `9 bytes that begin with "<html>40"`},
		"a/cut.jpg":      {jpg[:len(jpg)/2], "truncated: it ends after "},
		"a/head.jpg":     {jpg[:2], "truncated: it ends after 2 bytes"},
		"b/cut.png":      {pic[:len(pic)/2], "not enough pixel data"},
		"b/flipped.png":  {flipped, "not a readable image: "},
		"b/bomb.png":     {bomb(t).Data, "1056964610 x 1056964610 pixels, expected at most 67108864 (Config.MaxPixels)"},
		"b/nopixels.png": {append(append(bytes.Clone(pic[:16]), 0, 0, 0, 0, 0, 0, 0, 0), pic[24:]...), "not a readable image: "},
	}
	fsys := fstest.MapFS{"a/good.jpg": {Data: jpg}, "b/good.jpg": {Data: pic}} // the second one is named wrongly
	for name, b := range bad {
		fsys[name] = &fstest.MapFile{Data: b.data}
	}
	s, err := imagefolder.New(fsys, "pets", imagefolder.Config{Height: 4, Width: 4, Crop: imagefolder.RandomResizedCrop})
	if err != nil {
		t.Fatal(err)
	}
	e, err := pintensor.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l, err := dataloader.New(s, dataloader.Config{BatchSize: 16, Pin: e, OnError: dataloader.SkipErrors})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for batch, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if batch.Len() != 2 {
			t.Errorf("%d samples are left", batch.Len())
		}
		for _, skipped := range batch.Skipped {
			path := s.Path(skipped.Index)
			want := bad[strings.TrimPrefix(path, "pets/")].want
			if want == "" || !errors.Is(skipped, imagefolder.ErrFormat) || !strings.Contains(skipped.Error(), path) || !strings.Contains(skipped.Error(), want) {
				t.Errorf("%s: %v, want %q", path, skipped, want)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16<<20 {
		t.Errorf("allocated %d bytes", got)
	}
	if got := l.Stats().Skipped; got != int64(len(bad)) {
		t.Errorf("Stats.Skipped = %d, want %d", got, len(bad))
	}
}

// No file may stay open.
func TestManyEpochsFromDisk(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	for i := range 6 {
		sub := filepath.Join(dir, fmt.Sprint("class", i%2))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		data := file(t, "in_420.jpg").Data
		if i == 5 {
			data = data[:100]
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i, ".jpg")), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := imagefolder.Open(dir, imagefolder.Config{Height: 4, Width: 4})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := dataloader.MakeRows(s.Fields(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		for i := range s.Len() {
			if err := s.Read(t.Context(), i, rows.Row(0)); (err != nil) != (i == 5) {
				t.Fatalf("%d: %v", i, err)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, "class0", "0.jpg")); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context(), 0, rows.Row(0)); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, imagefolder.ErrFormat) || !strings.Contains(err.Error(), "0.jpg") {
		t.Errorf("removed: %v", err)
	}
}
