// Package turbojpeg decodes JPEG files with libjpeg-turbo, where it is installed: several times as fast as Go's image/jpeg, and
// to the pixels that Pillow and torchvision have, which use it too.
//
//	jpeg, err := turbojpeg.Open(turbojpeg.Config{})
//	if err != nil {
//		return err // ErrUnavailable: leave DecodeJPEG nil
//	}
//	defer jpeg.Close()
//	set, err := imagefolder.Open("train", imagefolder.Config{Height: 224, Width: 224, DecodeJPEG: jpeg.Decode})
//
// The library is loaded when the program runs, and neither cgo nor its headers are needed. Debian and Ubuntu have it in the package
// libturbojpeg0 or libturbojpeg, Fedora in turbojpeg, Homebrew in jpeg-turbo.
//
// Images that it does not decode without a complaint, and those of four colours (CMYK), are decoded by image/jpeg: whether a
// file is damaged is the same as without this package. It may decode files that image/jpeg does not support, such as arithmetic-coded
// ones.
//
// # Ownership
//
// A [Decoder] has some memory of the library's for each call that has run at the same time as others, until Close. One that is
// dropped without Close gives it back when it is collected. An image that Decode returns is the caller's.
//
// # Concurrency
//
// A Decoder may be used from any number of goroutines.
//
// # Errors
//
// [ErrUnavailable] if there is no library, with the names that were tried; [ErrClosed] after Close. Errors of Decode are those of
// image/jpeg, or say how large an image is that is too large.
//
// # Platforms
//
// Linux and macOS, on amd64 and arm64. Elsewhere Open returns ErrUnavailable.
package turbojpeg
