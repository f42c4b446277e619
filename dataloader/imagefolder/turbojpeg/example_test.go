package turbojpeg_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/pintensor/pin/dataloader/imagefolder"
	"github.com/pintensor/pin/dataloader/imagefolder/turbojpeg"
)

// With libjpeg-turbo where it is installed, and image/jpeg elsewhere.
func ExampleOpen() {
	cfg := imagefolder.Config{Height: 32, Width: 32}
	jpeg, err := turbojpeg.Open(turbojpeg.Config{})
	switch {
	case err == nil:
		defer jpeg.Close()
		cfg.DecodeJPEG = jpeg.Decode
	case !errors.Is(err, turbojpeg.ErrUnavailable):
		log.Fatal(err)
	}
	decoder, err := imagefolder.NewDecoder(cfg)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(decoder.Field("image").Shape)
	// Output: (3, 32, 32)
}

// The file of a decoder that is not needed any more.
func ExampleDecoder_Decode() {
	jpeg, err := turbojpeg.Open(turbojpeg.Config{Library: "/opt/turbojpeg/libturbojpeg.so"})
	if errors.Is(err, turbojpeg.ErrUnavailable) {
		fmt.Println("not installed")
		return
	}
	defer jpeg.Close()
	data, err := os.ReadFile("photo.jpg")
	if err != nil {
		log.Fatal(err)
	}
	m, err := jpeg.Decode(data, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Bounds())
	// Output: not installed
}
