package imagefolder_test

// Config.DecodeJPEG.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"log"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/dataloader/imagefolder"
	"github.com/pintensor/pin/internal/leak"
)

// A decoder of JPEG is asked for JPEG files only, with the image that it returned last; what it returns is what
// samples are made of.
func TestDecodeJPEG(t *testing.T) {
	leak.Check(t)
	var reused []image.Image
	last := image.NewRGBA(image.Rect(0, 0, 74, 46))
	cfg := imagefolder.Config{Height: 23, Width: 37, Crop: imagefolder.Squash, HWC: true, Dtype: tensor.Uint8}
	cfg.DecodeJPEG = func(data []byte, reuse image.Image) (image.Image, error) {
		if c, err := jpeg.DecodeConfig(bytes.NewReader(data)); err != nil || c.Width != 74 || c.Height != 46 {
			t.Errorf("called with %d bytes, %v", len(data), err)
		}
		reused = append(reused, reuse)
		for i := range last.Pix {
			last.Pix[i] = 100
		}
		return last, nil
	}
	d, err := imagefolder.NewDecoder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := dataloader.MakeRows([]dataloader.Field{d.Field("image")}, 1)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		if err := d.Decode(file(t, name).Data, rows.Row(0), 0); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(rows.Bytes(0))
	}
	if got := read("in_420.jpg"); slices.Min(got) != 100 || slices.Max(got) != 100 {
		t.Error("the sample is not of the decoder's image")
	}
	if got := read("in_rgb.png"); slices.Max(got) == 100 {
		t.Error("a PNG file got to the decoder")
	}
	read("in_gray.jpg")
	if len(reused) != 2 || reused[0] != nil || reused[1] != nil && reused[1] != image.Image(last) { // a sync.Pool may forget
		t.Errorf("images to be used again: %v", reused)
	}
}

func TestDecodeJPEGFails(t *testing.T) {
	leak.Check(t)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		decode func([]byte, image.Image) (image.Image, error)
		want   string
		format bool
	}{
		"an error": {func([]byte, image.Image) (image.Image, error) { return nil, broken }, "imagefolder: not a readable image: broken", true},
		"no fault of the file's": {func([]byte, image.Image) (image.Image, error) {
			return nil, fmt.Errorf("outer: %w", &dataloader.FatalError{Err: broken})
		}, "imagefolder: outer: broken", false},
		"nothing":   {func([]byte, image.Image) (image.Image, error) { return nil, nil }, "returned neither an image nor an error", false},
		"too small": {func([]byte, image.Image) (image.Image, error) { return image.NewGray(image.Rect(0, 0, 74, 45)), nil }, "an image of (0,0)-(74,45), expected (0,0)-(74,46)", false},
		"elsewhere": {func([]byte, image.Image) (image.Image, error) { return image.NewGray(image.Rect(1, 1, 75, 47)), nil }, "an image of (1,1)-(75,47), expected (0,0)-(74,46)", false},
	} {
		d, err := imagefolder.NewDecoder(imagefolder.Config{Height: 2, Width: 2, DecodeJPEG: c.decode})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := dataloader.MakeRows([]dataloader.Field{d.Field("image")}, 1)
		if err != nil {
			t.Fatal(err)
		}
		err = d.Decode(file(t, "in_420.jpg").Data, rows.Row(0), 0)
		var fatal *dataloader.FatalError
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, imagefolder.ErrFormat) != c.format || errors.As(err, &fatal) == c.format {
			t.Errorf("%s: %v, want %q, which is ErrFormat: %v, or else a FatalError", name, err, c.want, c.format)
		}
	}
	asked := false
	d, err := imagefolder.NewDecoder(imagefolder.Config{Height: 2, Width: 2, MaxPixels: 100, DecodeJPEG: func([]byte, image.Image) (image.Image, error) {
		asked = true
		return nil, broken
	}})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := dataloader.MakeRows([]dataloader.Field{d.Field("image")}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{file(t, "in_420.jpg").Data, file(t, "in_420.jpg").Data[:50], []byte("\xff\xd8")} {
		if err := d.Decode(data, rows.Row(0), 0); !errors.Is(err, imagefolder.ErrFormat) || asked {
			t.Errorf("%d bytes: %v, asked: %v: want what image/jpeg says of the header, and MaxPixels", len(data), err, asked)
		}
	}
}

// A panic in the decoder reaches the loop as the panics of Reads do, and the next image is decoded.
func TestDecodeJPEGPanics(t *testing.T) {
	leak.Check(t)
	var calls atomic.Int64
	set, err := imagefolder.New(fstest.MapFS{"a/1.jpg": file(t, "in_420.jpg"), "a/2.jpg": file(t, "in_444.jpg")}, "x", imagefolder.Config{Height: 2, Width: 2,
		DecodeJPEG: func(data []byte, _ image.Image) (image.Image, error) {
			if calls.Add(1) == 1 {
				panic("no")
			}
			return jpeg.Decode(bytes.NewReader(data))
		}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := dataloader.New(set, dataloader.Config{BatchSize: 1, Workers: 1, SingleEpoch: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	func() {
		defer func() {
			if p, ok := recover().(*dataloader.PanicError); !ok || p.Value != "no" {
				t.Errorf("%v", p)
			}
		}()
		for range l.Batches(t.Context()) {
		}
	}()
	for _, err := range l.Batches(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
}

// A decoder that somebody else has written.
func ExampleConfig_decodeJPEG() {
	mine := func(data []byte, _ image.Image) (image.Image, error) {
		return jpeg.Decode(bytes.NewReader(data)) // or nvJPEG, or libjpeg-turbo: see package turbojpeg
	}
	set, err := imagefolder.New(pets(), "pets", imagefolder.Config{Height: 32, Width: 32, DecodeJPEG: mine})
	if err != nil {
		log.Fatal(err)
	}
	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(batch.Host(imagefolder.Image).Shape())
	}
	// Output:
	// (2, 3, 32, 32)
	// dataloader: epoch 0, batch 1, sample 2: imagefolder: pets/dog/1.jpg: not a readable image: truncated: it ends after 200 bytes, before the image does: unexpected EOF
}
