package imagefolder

// What a Set can be told, and what is refused.

import (
	"cmp"
	"fmt"
	"image"
	"math"

	"gorgonia.org/tensor"
)

// Crop says which part of an image becomes the sample.
type Crop int

const (
	// CenterCrop resizes the shorter side to Config.Resize, and takes the middle: torchvision's
	// Resize(size), CenterCrop. It is what models are evaluated with.
	CenterCrop Crop = iota

	// RandomCrop resizes the shorter side to Config.Resize, and takes a random part: Resize(size), RandomCrop.
	RandomCrop

	// RandomResizedCrop takes a part of random size, proportions and place, and resizes that:
	// torchvision's RandomResizedCrop, with Config.Scale, and proportions of 3/4 to 4/3. It is what models are
	// trained with.
	RandomResizedCrop

	// Squash resizes the whole image, whatever its proportions: Resize((height, width)).
	Squash
)

// String returns the constant's name.
func (c Crop) String() string {
	names := [...]string{"CenterCrop", "RandomCrop", "RandomResizedCrop", "Squash"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("Crop(%d)", int(c))
	}
	return names[c]
}

// Config is what becomes of an image. Only Height and Width have no default.
type Config struct {
	// Height and Width are those of a sample in pixels, 1 to 65536.
	Height, Width int

	// Crop says which part of an image becomes the sample. CenterCrop by default.
	Crop Crop

	// Resize is the length in pixels of an image's shorter side, before CenterCrop or RandomCrop, at least Height and
	// Width. 0: the larger of these. The others must have 0.
	Resize int

	// Scale is the smallest and the largest share of an image's area that RandomResizedCrop takes. 0 and 0: 0.08
	// and 1. The others must have 0.
	Scale [2]float64

	// Flip is how probable it is that an image is mirrored left to right, 0 to 1. torchvision's
	// RandomHorizontalFlip has 0.5.
	Flip float64

	// Gray makes images of one channel, brightness, instead of three: red, green and blue.
	Gray bool

	// HWC puts the channels last, as images are shown, and not first, as convolutions want them.
	HWC bool

	// Dtype is the type of the field: tensor.Float32, which is the default, of values from 0 to 1, or
	// tensor.Uint8, of 0 to 255.
	Dtype tensor.Dtype

	// Mean and Std, of one number a channel, normalise a float32: (value - Mean) / Std. Nil: 0 and 1.
	Mean, Std []float32

	// MaxPixels is how many pixels an image may have that is decoded. 0: 67,108,864. A file of a few kilobytes
	// can announce four billion.
	MaxPixels int

	// DecodeJPEG decodes JPEG files in place of image/jpeg: package turbojpeg has one that is several times as fast. It
	// gets the bytes of a file whose header image/jpeg can read, and that has at most MaxPixels, and returns an image
	// of the size that is in the header, from (0, 0) on. It may take the memory of reuse, an image that it has returned
	// before and that is not used any more, or nil. It is called from several goroutines at once, and keeps neither. Its
	// errors are [ErrFormat], about the file, but for a [dataloader.FatalError], which no policy skips.
	DecodeJPEG func(data []byte, reuse image.Image) (image.Image, error)
}

const (
	maxSide         = 1 << 16 // which no JPEG exceeds
	maxPixels       = 1 << 26
	minRatio        = 3.0 / 4 // of RandomResizedCrop
	maxRatio        = 4.0 / 3
	defaultMinScale = 0.08
)

// MaxFile is how many bytes an image's file may have.
const MaxFile = 256 << 20

// check fills in defaults, and returns an error that names the first field with a value that makes no sense.
func (c *Config) check() error {
	resizes := c.Crop == CenterCrop || c.Crop == RandomCrop
	if c.Dtype.Type == nil {
		c.Dtype = tensor.Float32
	}
	switch {
	case c.Height < 1 || c.Height > maxSide:
		return fmt.Errorf("imagefolder: Config.Height = %d: want 1 to %d", c.Height, maxSide)
	case c.Width < 1 || c.Width > maxSide:
		return fmt.Errorf("imagefolder: Config.Width = %d: want 1 to %d", c.Width, maxSide)
	case c.Crop < CenterCrop || c.Crop > Squash:
		return fmt.Errorf("imagefolder: Config.Crop = %d: want CenterCrop, RandomCrop, RandomResizedCrop or Squash", int(c.Crop))
	case c.Resize != 0 && !resizes:
		return fmt.Errorf("imagefolder: Config.Resize = %d: want 0 with %v", c.Resize, c.Crop)
	case c.Resize != 0 && (c.Resize < max(c.Height, c.Width) || c.Resize > maxSide):
		return fmt.Errorf("imagefolder: Config.Resize = %d: want %d, the larger of Height and Width, to %d, or 0", c.Resize, max(c.Height, c.Width), maxSide)
	case c.Scale != [2]float64{} && c.Crop != RandomResizedCrop:
		return fmt.Errorf("imagefolder: Config.Scale = %v: want 0 with %v", c.Scale, c.Crop)
	case c.Scale != [2]float64{} && !(0 < c.Scale[0] && c.Scale[0] <= c.Scale[1] && c.Scale[1] <= 1):
		return fmt.Errorf("imagefolder: Config.Scale = %v: want 0 < Scale[0] <= Scale[1] <= 1", c.Scale)
	case !(0 <= c.Flip && c.Flip <= 1):
		return fmt.Errorf("imagefolder: Config.Flip = %v: want 0 to 1", c.Flip)
	case c.Dtype != tensor.Float32 && c.Dtype != tensor.Uint8:
		return fmt.Errorf("imagefolder: Config.Dtype = %v: want tensor.Float32 or tensor.Uint8", c.Dtype)
	case c.MaxPixels < 0:
		return fmt.Errorf("imagefolder: Config.MaxPixels = %d: want >= 0", c.MaxPixels)
	}
	if err := cmp.Or(c.checkPerChannel("Mean", c.Mean), c.checkPerChannel("Std", c.Std)); err != nil {
		return err
	}
	if resizes && c.Resize == 0 {
		c.Resize = max(c.Height, c.Width)
	}
	if c.Scale == [2]float64{} {
		c.Scale = [2]float64{defaultMinScale, 1}
	}
	if c.MaxPixels == 0 {
		c.MaxPixels = maxPixels
	}
	return nil
}

func (c *Config) checkPerChannel(name string, values []float32) error {
	if values == nil {
		return nil
	}
	if len(values) != c.channels() {
		return fmt.Errorf("imagefolder: Config.%s = %v: want %d numbers, one a channel", name, values, c.channels())
	}
	if c.Dtype == tensor.Uint8 {
		return fmt.Errorf("imagefolder: Config.%s = %v: want nil with tensor.Uint8", name, values)
	}
	for _, v := range values {
		if x := float64(v); math.IsNaN(x) || math.IsInf(x, 0) || name == "Std" && x <= 0 {
			return fmt.Errorf("imagefolder: Config.%s = %v: want finite numbers, and a Std > 0", name, values)
		}
	}
	return nil
}

func (c *Config) channels() int {
	if c.Gray {
		return 1
	}
	return 3
}

// table returns the float32 that each value of a channel becomes.
func (c *Config) table(channel int) *[256]float32 {
	mean, std := 0.0, 1.0
	if c.Mean != nil {
		mean = float64(c.Mean[channel])
	}
	if c.Std != nil {
		std = float64(c.Std[channel])
	}
	var t [256]float32
	for v := range t {
		t[v] = float32((float64(v)/255 - mean) / std)
	}
	return &t
}
