package imagefolder

// From a file to an image in memory.

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/internal/datafile"
)

// ErrFormat is in the chain of every error about the contents of a file, as opposed to errors of opening
// and reading it.
var ErrFormat = errors.New("not a readable image")

// decode makes an image of a JPEG or PNG file. What it begins with tells, not its name: files are often named wrongly. reuse is
// an image that Config.DecodeJPEG has returned and nobody uses any more, or nil. again says that m is of Config.DecodeJPEG, and may be
// passed as reuse when it has been used.
func (c *Config) decode(data []byte, reuse image.Image) (m image.Image, again bool, err error) {
	config, whole := jpeg.DecodeConfig, jpeg.Decode
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xd8")):
		again = c.DecodeJPEG != nil
	case bytes.HasPrefix(data, []byte("\x89PNG")):
		config, whole = png.DecodeConfig, png.Decode
	default:
		return nil, false, badf("%d bytes that begin with %q, expected a JPEG or PNG file", len(data), data[:min(len(data), 8)])
	}
	h, err := config(bytes.NewReader(data))
	if err != nil {
		return nil, false, damaged(data, err)
	}
	if h.Width <= 0 || h.Height <= 0 {
		return nil, false, badf("%d x %d pixels", h.Width, h.Height)
	}
	if h.Width > c.MaxPixels/h.Height {
		return nil, false, badf("%d x %d pixels, expected at most %d (Config.MaxPixels)", h.Width, h.Height, c.MaxPixels)
	}
	if again {
		m, err = c.DecodeJPEG(data, reuse)
	} else {
		m, err = whole(bytes.NewReader(data))
	}
	var fatal *dataloader.FatalError
	switch {
	case errors.As(err, &fatal):
		return nil, false, err
	case err != nil:
		return nil, false, damaged(data, err)
	case again && m == nil:
		return nil, false, &dataloader.FatalError{Err: errors.New("Config.DecodeJPEG returned neither an image nor an error")}
	case again && m.Bounds() != image.Rect(0, 0, h.Width, h.Height):
		return nil, false, &dataloader.FatalError{Err: fmt.Errorf("Config.DecodeJPEG returned an image of %v, expected (0,0)-(%d,%d)", m.Bounds(), h.Width, h.Height)}
	}
	return m, again, nil
}

func damaged(data []byte, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return badf("truncated: it ends after %d bytes, before the image does: %w", len(data), err)
	}
	return badf("%w", err)
}

// readFile reads a file of fsys, into the memory of buf if there is enough.
func readFile(fsys fs.FS, name string, buf []byte) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return buf, err
	}
	defer f.Close() // opened for reading: nothing that Close could lose
	info, err := f.Stat()
	if err != nil {
		return buf, err
	}
	n := info.Size()
	if n > MaxFile {
		return buf, badf("%d bytes, expected at most %d", n, MaxFile)
	}
	if n > int64(cap(buf)) {
		if buf, err = datafile.ReadGrowing(f, n); errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil // it got shorter; the decoder will tell
		}
		return buf, err
	}
	buf = buf[:n]
	k, err := io.ReadFull(f, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return buf[:k], err
}

func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}
