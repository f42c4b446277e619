package imagefolder

// What Pillow makes of the same images, and the shapes of crops.

import (
	"fmt"
	"image"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

// decoded is the image in a file.
func decoded(data []byte) (image.Image, error) {
	m, _, err := (&Config{MaxPixels: 1 << 20}).decode(data, nil)
	return m, err
}

func load(t testing.TB, name string) image.Image {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	m, err := decoded(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// furthest returns by how much a value differs at most from what the golden image has.
func furthest(t testing.TB, got []byte, golden string, gray bool) int {
	t.Helper()
	m := load(t, golden)
	b := m.Bounds()
	channels := 3
	if gray {
		channels = 1
	}
	if len(got) != b.Dx()*b.Dy()*channels {
		t.Fatalf("%s: %d values, want %v x %d", golden, len(got), b, channels)
	}
	want := make([]byte, b.Dx()*3)
	most := 0
	for y := range b.Dy() {
		readRow(want, m, 0, b.Dx(), y, gray)
		for i, w := range want[:b.Dx()*channels] {
			most = max(most, int(math.Abs(float64(w)-float64(got[y*b.Dx()*channels+i]))))
		}
	}
	return most
}

func TestEqualsPillow(t *testing.T) {
	leak.Check(t)
	var z resizer // one for all: what an earlier image left must not show
	for _, name := range []string{"rgb.png", "rgba.png", "gray.png", "grayalpha.png", "palette.png", "bit.png"} {
		m := load(t, "in_"+name)
		c := Config{Height: 12, Width: 16, Crop: Squash}
		g := c.geometry(m.Bounds(), nil)
		if d := furthest(t, z.resize(m, g, false), "squash_"+name, false); d != 0 {
			t.Errorf("%s (%T): differs by %d", name, m, d)
		}
		if d := furthest(t, z.resize(m, g, true), "brightness_"+name, true); d != 0 {
			t.Errorf("%s (%T), gray: differs by %d", name, m, d)
		}
	}
	m := load(t, "in_rgb.png")
	for golden, c := range map[string]Config{
		"squash_90_5.png":     {Height: 5, Width: 90, Crop: Squash},
		"squash_1_1.png":      {Height: 1, Width: 1, Crop: Squash},
		"center_16_14_13.png": {Height: 14, Width: 13, Resize: 16},
		"center_40_33_40.png": {Height: 33, Width: 40, Resize: 40},
		"center_23_23_23.png": {Height: 23, Width: 23},
	} {
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		if d := furthest(t, z.resize(m, c.geometry(m.Bounds(), nil), false), golden, false); d != 0 {
			t.Errorf("%s: differs by %d", golden, d)
		}
	}
	g := geometry{image.Rect(5, 3, 30, 20), 8, 9, image.Rect(0, 0, 8, 9)}
	if d := furthest(t, z.resize(m, g, false), "box_5_3_30_20_8_9.png", false); d != 0 {
		t.Errorf("box: differs by %d", d)
	}
}

// The decoders of JPEG differ, a little.
func TestNearPillow(t *testing.T) {
	leak.Check(t)
	var z resizer
	for name, most := range map[string]int{"420": 16, "422": 16, "444": 2, "progressive": 16, "gray": 1, "cmyk": 4} {
		m := load(t, "in_"+name+".jpg")
		c := Config{Height: 12, Width: 16, Crop: Squash}
		d := furthest(t, z.resize(m, c.geometry(m.Bounds(), nil), false), "squash_jpeg_"+name+".png", false)
		t.Logf("%s (%T): differs by %d", name, m, d)
		if d > most {
			t.Errorf("%s (%T): differs by %d, want at most %d", name, m, d, most)
		}
	}
}

// synthetic makes images of every kind that a decoder makes, of the same pixels.
func synthetic(w, h int) map[string]image.Image {
	r := image.Rect(0, 0, w, h)
	kinds := map[string]image.Image{}
	rgba, nrgba, rgba64, nrgba64 := image.NewRGBA(r), image.NewNRGBA(r), image.NewRGBA64(r), image.NewNRGBA64(r)
	for i := range w * h {
		for c := range 3 {
			v := byte(i*31 + c*77)
			rgba.Pix[4*i+c], nrgba.Pix[4*i+c], rgba64.Pix[8*i+2*c], nrgba64.Pix[8*i+2*c] = v, v, v, v
		}
		rgba.Pix[4*i+3], rgba64.Pix[8*i+6], nrgba.Pix[4*i+3], nrgba64.Pix[8*i+6] = 255, 255, byte(i), byte(i)
	}
	kinds["RGBA"], kinds["NRGBA"], kinds["RGBA64"], kinds["NRGBA64"] = rgba, nrgba, rgba64, nrgba64
	return kinds
}

func TestKindsAgree(t *testing.T) {
	leak.Check(t)
	kinds := synthetic(19, 11)
	for _, gray := range []bool{false, true} {
		want := make([]byte, 3*10)
		got := make([]byte, 3*10)
		for y := range 11 {
			readRow(want, kinds["RGBA"], 7, 17, y, gray)
			for name, m := range kinds {
				readRow(got, m, 7, 17, y, gray)
				n := map[bool]int{false: 30, true: 10}[gray]
				if string(got[:n]) != string(want[:n]) {
					t.Fatalf("%s, row %d, gray %v: %v, want %v", name, y, gray, got, want)
				}
			}
		}
	}
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420, image.YCbCrSubsampleRatio440,
		image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		m := image.NewYCbCr(image.Rect(0, 0, 19, 11), ratio)
		for i := range m.Y {
			m.Y[i] = byte(i * 13)
		}
		for i := range m.Cb {
			m.Cb[i], m.Cr[i] = byte(i*7), byte(i*29)
		}
		row := make([]byte, 3*19)
		for y := range 11 {
			readRow(row, m, 0, 19, y, false)
			for x := range 19 {
				r, g, b, _ := m.At(x, y).RGBA()
				if want := [3]byte{byte(r >> 8), byte(g >> 8), byte(b >> 8)}; [3]byte(row[3*x:]) != want {
					t.Fatalf("%v at (%d, %d): %v, want %v", ratio, x, y, row[3*x:3*x+3], want)
				}
			}
		}
	}
}

// Every crop of every shape of image stays inside of it, and covers the sample.
func TestGeometry(t *testing.T) {
	leak.Check(t)
	r := rand.New(rand.NewPCG(1, 2))
	var z resizer
	for _, bounds := range []image.Rectangle{
		image.Rect(0, 0, 1, 1), image.Rect(0, 0, 1, 900), image.Rect(0, 0, 900, 1), image.Rect(0, 0, 37, 23), image.Rect(3, 5, 40, 41), image.Rect(0, 0, 65535, 2),
	} {
		for crop := CenterCrop; crop <= Squash; crop++ {
			for range 20 {
				c := Config{Height: 1 + r.IntN(9), Width: 1 + r.IntN(9), Crop: crop}
				if err := c.check(); err != nil {
					t.Fatal(err)
				}
				g := c.geometry(bounds, func() *rand.Rand { return r })
				name := fmt.Sprintf("%v of %v to %d x %d: %+v", crop, bounds, c.Width, c.Height, g)
				if g.box.Empty() || !g.box.In(bounds) {
					t.Fatalf("%s: box outside", name)
				}
				if g.part.Dx() != c.Width || g.part.Dy() != c.Height || !g.part.In(image.Rect(0, 0, g.width, g.height)) {
					t.Fatalf("%s: part outside", name)
				}
				m := image.NewGray(bounds)
				for i := range m.Pix {
					m.Pix[i] = 255
				}
				if got := string(z.resize(m, g, true)); got != strings.Repeat("\xff", c.Width*c.Height) {
					t.Fatalf("%s: white becomes %q", name, got)
				}
			}
		}
	}
}

// RandomResizedCrop draws areas and proportions evenly from what they may be.
func TestRandomBox(t *testing.T) {
	leak.Check(t)
	r := rand.New(rand.NewPCG(3, 4))
	c := Config{Height: 8, Width: 8, Crop: RandomResizedCrop, Scale: [2]float64{0.25, 0.5}}
	const n = 4000
	wide, large := 0, 0
	for range n {
		b := c.randomBox(image.Rect(0, 0, 1000, 1000), r)
		area, ratio := float64(b.Dx()*b.Dy())/1e6, float64(b.Dx())/float64(b.Dy())
		if area < 0.249 || area > 0.501 || ratio < 0.748 || ratio > 1.336 {
			t.Fatalf("%v: area %v, ratio %v", b, area, ratio)
		}
		if ratio > 1 {
			wide++
		}
		if area > 0.375 {
			large++
		}
	}
	for name, k := range map[string]int{"wide": wide, "large": large} {
		if math.Abs(float64(k)-n/2) > 5*math.Sqrt(n)/2 {
			t.Errorf("%d of %d are %s", k, n, name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"in_rgba.png", "in_palette.png", "in_bit.png", "in_420.jpg", "in_progressive.jpg", "in_cmyk.jpg", "in_gray.jpg"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(0), true)
	}
	var z resizer
	f.Fuzz(func(t *testing.T, data []byte, crop uint8, gray bool) {
		m, _, err := (&Config{MaxPixels: 1 << 16}).decode(data, nil)
		if err != nil {
			return
		}
		c := Config{Height: 3, Width: 5, Crop: Crop(crop % 4), Gray: gray}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		if got := len(z.resize(m, c.geometry(m.Bounds(), func() *rand.Rand { return r }), gray)); got != 15*c.channels() {
			t.Errorf("%d values", got)
		}
	})
}
