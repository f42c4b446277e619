package turbojpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"runtime"
	"sync"

	"github.com/pintensor/pin/dataloader"
)

var (
	// ErrUnavailable says that libjpeg-turbo could not be loaded.
	ErrUnavailable = errors.New("turbojpeg: libjpeg-turbo is not available")

	// ErrClosed says that a Decoder was used after its Close.
	ErrClosed = errors.New("turbojpeg: the Decoder is closed")
)

// Config is how files are decoded.
type Config struct {
	// MaxPixels is how many pixels an image may have. 0: 67,108,864. A file of a few kilobytes can announce four
	// billion.
	MaxPixels int

	// Library is the file to load, by name or path. Empty: libturbojpeg.so.0 and what else the library is called.
	Library string
}

const maxPixels = 1 << 26

// Decoder decodes JPEG files.
type Decoder struct {
	*pool
	maxPixels int
	cleanup   runtime.Cleanup
}

// Open loads libjpeg-turbo, which takes some milliseconds the first time.
func Open(cfg Config) (*Decoder, error) {
	if cfg.MaxPixels < 0 {
		return nil, fmt.Errorf("turbojpeg: Config.MaxPixels = %d: want >= 0", cfg.MaxPixels)
	}
	if cfg.MaxPixels == 0 {
		cfg.MaxPixels = maxPixels
	}
	lib, err := load(cfg.Library)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	d := &Decoder{pool: &pool{lib: lib}, maxPixels: cfg.MaxPixels}
	d.cleanup = runtime.AddCleanup(d, func(p *pool) { p.close() }, d.pool)
	return d, nil
}

// Close gives the library's memory back. Calls that are running end as usual, later ones return [ErrClosed]. Further
// calls of Close return nil.
func (d *Decoder) Close() error {
	if d == nil || d.pool == nil {
		return nil
	}
	d.cleanup.Stop()
	d.close()
	return nil
}

// Decode returns the image in the JPEG file data: an [*image.RGBA] or [*image.Gray], or what image/jpeg makes of it. It may take
// the memory of reuse, an image that an earlier call returned and nobody uses any more; nil if there is none. data is read
// only, and until Decode returns. That the Decoder is closed, or the library out of memory, is a [dataloader.FatalError]: no
// fault of the file's.
func (d *Decoder) Decode(data []byte, reuse image.Image) (image.Image, error) {
	if d == nil || d.pool == nil {
		return nil, &dataloader.FatalError{Err: errors.New("turbojpeg: Decode: the Decoder was not made by Open")}
	}
	h, err := d.get()
	if err != nil {
		return nil, &dataloader.FatalError{Err: err}
	}
	defer d.put(h)
	size, gray, ok := h.header(data)
	if !ok {
		return d.plain(data)
	}
	if size.Y > d.maxPixels/size.X {
		return nil, tooLarge(size, d.maxPixels)
	}
	m, pixels := memory(reuse, size, gray)
	if !h.decode(data, pixels, size, gray) {
		return d.plain(data)
	}
	return m, nil
}

// plain decodes with image/jpeg.
func (d *Decoder) plain(data []byte) (image.Image, error) {
	c, err := jpeg.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if size := image.Pt(c.Width, c.Height); c.Height > 0 && c.Width > d.maxPixels/c.Height {
		return nil, tooLarge(size, d.maxPixels)
	}
	return jpeg.Decode(bytes.NewReader(data))
}

func tooLarge(size image.Point, most int) error {
	return fmt.Errorf("turbojpeg: %d x %d pixels: want at most %d (Config.MaxPixels)", size.X, size.Y, most)
}

// memory returns an image of a size, in the memory of reuse if that is of its kind and large enough, and its pixels.
func memory(reuse image.Image, size image.Point, gray bool) (image.Image, []byte) {
	rect := image.Rectangle{Max: size}
	if gray {
		if m, ok := reuse.(*image.Gray); ok && cap(m.Pix) >= size.X*size.Y {
			m.Pix, m.Stride, m.Rect = m.Pix[:size.X*size.Y], size.X, rect
			return m, m.Pix
		}
		m := image.NewGray(rect)
		return m, m.Pix
	}
	if m, ok := reuse.(*image.RGBA); ok && cap(m.Pix) >= 4*size.X*size.Y {
		m.Pix, m.Stride, m.Rect = m.Pix[:4*size.X*size.Y], 4*size.X, rect
		return m, m.Pix
	}
	m := image.NewRGBA(rect)
	return m, m.Pix
}

// pool has the library's decompressors, each of which one call at a time may use.
type pool struct {
	lib *library

	mu     sync.Mutex
	idle   []*handle
	made   int // that are not destroyed
	closed bool
}

// get returns a decompressor, an idle one where there is one.
func (p *pool) get() (*handle, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(p.idle); n > 0 {
		h := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return h, nil
	}
	p.made++
	p.mu.Unlock()
	h, err := p.lib.open()
	if err != nil {
		p.mu.Lock()
		p.made--
		p.mu.Unlock()
	}
	return h, err
}

// put takes a decompressor back.
func (p *pool) put(h *handle) {
	p.mu.Lock()
	over := p.closed
	if over {
		p.made--
	} else {
		p.idle = append(p.idle, h)
	}
	p.mu.Unlock()
	if over {
		h.destroy()
	}
}

// close destroys what is idle; what is not is destroyed when it is put back.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle, p.made = nil, p.made-len(idle)
	p.mu.Unlock()
	for _, h := range idle {
		h.destroy()
	}
}
