package turbojpeg

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/imagefolder"
	"github.com/pintensor/pin/internal/leak"
)

// open returns a Decoder, whose handles are gone at the end. REQUIRE_TURBOJPEG=1 makes it an error that there is none.
func open(t testing.TB, cfg Config) *Decoder {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		if os.Getenv("REQUIRE_TURBOJPEG") == "1" || !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		t.Skip("NOT RUN:", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if d.made != 0 {
			t.Errorf("%d decompressors were not destroyed", d.made)
		}
	})
	return d
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Resized images are what Pillow makes of the same files, to the bit.
func TestEqualsPillow(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{})
	decoder, err := imagefolder.NewDecoder(imagefolder.Config{Height: 12, Width: 16, Crop: imagefolder.Squash, HWC: true, Dtype: tensor.Uint8, DecodeJPEG: d.Decode})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := dataloader.MakeRows([]dataloader.Field{decoder.Field("image")}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, most := range map[string]int{"420": 0, "422": 0, "444": 0, "progressive": 0, "gray": 0, "cmyk": 4} {
		if err := decoder.Decode(read(t, "in_"+name+".jpg"), rows.Row(0), 0); err != nil {
			t.Fatal(err)
		}
		golden, err := png.Decode(bytes.NewReader(read(t, "squash_jpeg_"+name+".png")))
		if err != nil {
			t.Fatal(err)
		}
		furthest := 0
		for i, got := range rows.Bytes(0) {
			r, g, b, _ := golden.At(i/3%16, i/48).RGBA()
			want := int([]uint32{r, g, b}[i%3] >> 8)
			furthest = max(furthest, want-int(got), int(got)-want)
		}
		if furthest > most {
			t.Errorf("%s: differs by %d, want at most %d", name, furthest, most)
		}
	}
}

// Images are of the kind that they should be, and near what image/jpeg makes of them: the right way up, and the right colours.
func TestDecode(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{})
	for name, most := range map[string]int{"420": 90, "422": 90, "444": 3, "progressive": 90, "gray": 1, "cmyk": 0} {
		data := read(t, "in_"+name+".jpg")
		m, err := d.Decode(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *image.Gray:
			if name != "gray" {
				t.Errorf("%s: a %T", name, m)
			}
		case *image.RGBA:
			if name == "gray" || name == "cmyk" || !m.Opaque() {
				t.Errorf("%s: a %T", name, m)
			}
		default:
			if name != "cmyk" {
				t.Errorf("%s: a %T", name, m)
			}
		}
		want, err := jpeg.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if m.Bounds() != want.Bounds() {
			t.Fatalf("%s: %v, want %v", name, m.Bounds(), want.Bounds())
		}
		furthest, sum, n := 0, 0, 0
		for y := range want.Bounds().Dy() {
			for x := range want.Bounds().Dx() {
				r, g, b, _ := m.At(x, y).RGBA()
				u, v, w, _ := want.At(x, y).RGBA()
				for _, off := range []int{int(r>>8) - int(u>>8), int(g>>8) - int(v>>8), int(b>>8) - int(w>>8)} {
					furthest, sum, n = max(furthest, off, -off), sum+max(off, -off), n+1
				}
			}
		}
		if furthest > most || sum > 8*n { // colours at half the resolution are interpolated, or not
			t.Errorf("%s: differs by up to %d, %.1f on average", name, furthest, float64(sum)/float64(n))
		}
	}
}

// What is wrong with a damaged file is what image/jpeg says.
func TestDamagedFiles(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{})
	for _, name := range []string{"in_420.jpg", "in_progressive.jpg", "in_gray.jpg"} {
		whole := read(t, name)
		for n := range len(whole) {
			data := whole[:n:n]
			_, want := jpeg.Decode(bytes.NewReader(data))
			_, err := d.Decode(data, nil)
			if (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
				t.Fatalf("%s, %d of %d bytes: %v, want %v", name, n, len(whole), err, want)
			}
		}
	}
	for _, data := range [][]byte{nil, {}, []byte("\x89PNG"), []byte("no image at all")} {
		if m, err := d.Decode(data, nil); err == nil {
			t.Errorf("%q: %v", data, m)
		}
	}
}

func TestMaxPixels(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{MaxPixels: 74 * 46})
	for _, name := range []string{"in_420.jpg", "in_gray.jpg", "in_cmyk.jpg"} {
		data := read(t, name)
		if _, err := d.Decode(data, nil); err != nil {
			t.Error(err)
		}
		small := open(t, Config{MaxPixels: 74*46 - 1})
		if _, err := small.Decode(data, nil); err == nil || !strings.Contains(err.Error(), "turbojpeg: 74 x 46 pixels: want at most 3403 (Config.MaxPixels)") {
			t.Errorf("%s: %v", name, err)
		}
		big := bytes.Clone(data) // a header that announces 65,535 x 65,535 pixels
		at := bytes.Index(big, []byte{0xff, 0xc0})
		copy(big[at+5:], "\xff\xff\xff\xff")
		if _, err := d.Decode(big, nil); err == nil || !strings.Contains(err.Error(), "65535 x 65535 pixels") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(Config{MaxPixels: -1}); err == nil || !strings.Contains(err.Error(), "Config.MaxPixels = -1") {
		t.Error(err)
	}
}

// The memory of an image is used again where the next one fits, and nothing of the older one is left.
func TestReuse(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{})
	decode := func(name string, reuse image.Image) image.Image {
		t.Helper()
		m, err := d.Decode(read(t, name), reuse)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	at := func(m image.Image) *byte {
		switch m := m.(type) {
		case *image.RGBA:
			return &m.Pix[0]
		case *image.Gray:
			return &m.Pix[0]
		}
		return nil
	}
	fresh := decode("in_444.jpg", nil).(*image.RGBA)
	large := image.NewRGBA(image.Rect(3, 4, 200, 100))
	for i := range large.Pix {
		large.Pix[i] = 0xaa
	}
	was := at(large)
	m := decode("in_444.jpg", large).(*image.RGBA)
	if at(m) != was || m.Rect != fresh.Rect || m.Stride != fresh.Stride || !bytes.Equal(m.Pix, fresh.Pix) {
		t.Error("the memory of a larger image was not used again, or shows")
	}
	for name, reuse := range map[string]image.Image{"small": image.NewRGBA(image.Rect(0, 0, 73, 46)), "gray": image.NewGray(image.Rect(0, 0, 999, 99)), "none": image.Image(nil)} {
		if m := decode("in_444.jpg", reuse); reuse != nil && at(m) == at(reuse) {
			t.Errorf("%s: the memory was used again", name)
		}
	}
	gray := decode("in_gray.jpg", nil)
	if again := decode("in_gray.jpg", gray); at(again) != at(gray) {
		t.Error("the memory of a gray image was not used again")
	}
}

func TestManyAtOnce(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{})
	data := read(t, "in_420.jpg")
	want, err := d.Decode(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var m image.Image
			for range 100 {
				var err error
				if m, err = d.Decode(data, m); err != nil || !bytes.Equal(m.(*image.RGBA).Pix, want.(*image.RGBA).Pix) {
					t.Errorf("another image, or %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if d.made < 1 || d.made > 8 || len(d.idle) != d.made {
		t.Errorf("%d decompressors, %d idle, for 8 calls at once", d.made, len(d.idle))
	}
}

func TestClose(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{})
	data := read(t, "in_420.jpg")
	h, err := d.get() // a call that is running
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(data, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if d.made != 1 {
		t.Errorf("%d decompressors after Close, want that of the running call", d.made)
	}
	d.put(h)
	if d.made != 0 {
		t.Error("the running call's decompressor was not destroyed")
	}
	var fatal *dataloader.FatalError
	if _, err := d.Decode(data, nil); !errors.Is(err, ErrClosed) || !errors.As(err, &fatal) {
		t.Errorf("after Close: %v", err)
	}
	for _, none := range []*Decoder{nil, {}} {
		if _, err := none.Decode(data, nil); !errors.As(err, &fatal) || none.Close() != nil {
			t.Errorf("not made by Open: %v", err)
		}
	}
}

// A Decoder that is dropped gives its memory back.
func TestDropped(t *testing.T) {
	leak.Check(t)
	d := open(t, Config{})
	dropped, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dropped.Decode(read(t, "in_420.jpg"), nil); err != nil {
		t.Fatal(err)
	}
	p := dropped.pool
	dropped = nil
	closed := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.closed && p.made == 0
	}
	for range 1000 {
		if runtime.GC(); closed() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !closed() {
		t.Error("the pool of a Decoder that is gone is open")
	}
	runtime.KeepAlive(d)
}

func TestUnavailable(t *testing.T) {
	leak.Check(t)
	for _, name := range []string{"libnothing.so.7", "/nowhere/libturbojpeg.so"} {
		_, err := Open(Config{Library: name})
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if runtime.GOOS == "linux" && !strings.Contains(err.Error(), name) {
			t.Errorf("%v: want the name", err)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	if _, err := Open(Config{Library: "libc.so.6"}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "tj") {
		t.Errorf("another library: %v", err)
	}
}

// FuzzDecode: no file makes the library crash, and what image/jpeg can decode is decoded, to an image of the same size.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"in_420.jpg", "in_422.jpg", "in_progressive.jpg", "in_cmyk.jpg", "in_gray.jpg"} {
		f.Add(read(f, name))
	}
	d, err := Open(Config{MaxPixels: 1 << 16})
	if err != nil {
		f.Skip("NOT RUN:", err)
	}
	f.Cleanup(func() { d.Close() })
	var reuse image.Image
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := jpeg.DecodeConfig(bytes.NewReader(data))
		if err != nil || c.Width*c.Height > 1<<16 {
			return
		}
		want, wantErr := jpeg.Decode(bytes.NewReader(data))
		m, err := d.Decode(data, reuse)
		if wantErr == nil && (err != nil || m.Bounds() != want.Bounds()) {
			t.Errorf("%v, %v, image/jpeg makes %v", m, err, want.Bounds())
		}
		if err == nil {
			reuse = m
		}
	})
}
