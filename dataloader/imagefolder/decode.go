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

	"github.com/pintensor/pin/internal/datafile"
)

// ErrFormat is in the chain of every error about the contents of a file, as opposed to errors of opening
// and reading it.
var ErrFormat = errors.New("not a readable image")

// decode makes an image of a JPEG or PNG file. What it begins with tells, not its name: files are often named wrongly.
func decode(data []byte, maxPixels int) (image.Image, error) {
	config, whole := jpeg.DecodeConfig, jpeg.Decode
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xd8")):
	case bytes.HasPrefix(data, []byte("\x89PNG")):
		config, whole = png.DecodeConfig, png.Decode
	default:
		return nil, badf("%d bytes that begin with %q, expected a JPEG or PNG file", len(data), data[:min(len(data), 8)])
	}
	c, err := config(bytes.NewReader(data))
	if err != nil {
		return nil, damaged(data, err)
	}
	if c.Width <= 0 || c.Height <= 0 {
		return nil, badf("%d x %d pixels", c.Width, c.Height)
	}
	if c.Width > maxPixels/c.Height {
		return nil, badf("%d x %d pixels, expected at most %d (Config.MaxPixels)", c.Width, c.Height, maxPixels)
	}
	m, err := whole(bytes.NewReader(data))
	if err != nil {
		return nil, damaged(data, err)
	}
	return m, nil
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
