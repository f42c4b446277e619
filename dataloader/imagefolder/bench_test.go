package imagefolder

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/imagefolder/turbojpeg"
	"github.com/pintensor/pin/pintensor"
)

// photo is a JPEG about as hard to decode as a photograph of its size in ImageNet: 50 kB for 500 x 375.
func photo(seed uint64, w, h int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			p := m.Pix[m.PixOffset(x, y):][:4]
			noise := r.Float64() * 20
			p[0] = byte(120 + 90*math.Sin(float64(x+y)/17) + noise)
			p[1] = byte(120 + 90*math.Cos(float64(y)/23) + noise)
			p[2] = byte(120 + 90*math.Sin(float64(x*y)/9000) + noise)
			p[3] = 255
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 88}); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// album returns a folder of photos, 500 x 375 and 375 x 500, of 4 classes. IMAGES_DIR names one that stays, for others to
// read the same files: it is filled if it isn't there yet.
func album(b *testing.B) string {
	dir, photos := os.Getenv("IMAGES_DIR"), 500
	if dir == "" {
		dir, photos = b.TempDir(), 128
	} else if _, err := os.Stat(dir); err == nil {
		return dir
	}
	var wg sync.WaitGroup
	for i := range photos {
		sub := filepath.Join(dir, fmt.Sprint("class", i%4))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			w, h := 500, 375
			if i%3 == 0 {
				w, h = h, w
			}
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("%03d.jpg", i)), photo(uint64(i), w, h), 0o600); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	return dir
}

// BenchmarkLoader delivers batches of 64 images of a folder: read, decoded, cropped at random and resized to 224 x
// 224, flipped and normalised, as a ResNet is trained. It is to be compared with torchvision's ImageFolder and
// transforms, with as many workers. "jpeg=turbo" is with libjpeg-turbo, where that is installed.
func BenchmarkLoader(b *testing.B) {
	dir := album(b)
	cfg := Config{
		Height: 224, Width: 224, Crop: RandomResizedCrop, Flip: 0.5,
		Mean: []float32{0.485, 0.456, 0.406}, Std: []float32{0.229, 0.224, 0.225},
	}
	benchmarkLoader(b, "", dir, cfg)
	turbo, err := turbojpeg.Open(turbojpeg.Config{})
	if err != nil {
		b.Log(err)
		return
	}
	defer turbo.Close()
	cfg.DecodeJPEG = turbo.Decode
	benchmarkLoader(b, "/jpeg=turbo", dir, cfg)
}

func benchmarkLoader(b *testing.B, name, dir string, cfg Config) {
	set, err := Open(dir, cfg)
	if err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 2, 4, 8, 16} {
		if workers > 2*runtime.GOMAXPROCS(0) {
			continue
		}
		b.Run(fmt.Sprintf("workers=%d%s", workers, name), func(b *testing.B) {
			e, err := pintensor.NewEngine()
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			l, err := dataloader.New(set, dataloader.Config{BatchSize: 64, Shuffle: true, Workers: workers, Pin: e})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			images := 0
			for b.Loop() { // an epoch
				for batch, err := range l.Batches(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					images += batch.Len()
				}
			}
			b.ReportMetric(float64(images)/b.Elapsed().Seconds(), "images/s")
		})
	}
}

// BenchmarkStages shows what one image takes, on one core.
func BenchmarkStages(b *testing.B) {
	data := photo(1, 500, 375)
	m, err := decoded(data)
	if err != nil {
		b.Fatal(err)
	}
	c := Config{Height: 224, Width: 224, Resize: 256}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := decoded(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, gray := range []bool{false, true} {
		b.Run(fmt.Sprintf("resize/gray=%v", gray), func(b *testing.B) {
			var z resizer
			b.ReportAllocs()
			for b.Loop() {
				z.resize(m, c.geometry(m.Bounds(), nil), gray)
			}
		})
	}
	d, err := NewDecoder(c)
	if err != nil {
		b.Fatal(err)
	}
	rows, err := dataloader.MakeRows([]dataloader.Field{d.Field("image")}, 1)
	if err != nil {
		b.Fatal(err)
	}
	pixels := make([]byte, 224*224*3)
	b.Run("normalise", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.store(rows.Row(0), 0, pixels)
		}
	})
}
