package imagefolder

// The data set.

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
)

// The fields of a sample.
const (
	Image = iota // float32 or uint8, of shape (channels, Height, Width), or with Config.HWC (Height, Width, channels)
	Label        // int64: the number of the class in Classes
)

// Set is a [dataloader.Dataset] of the images in a folder.
type Set struct {
	cfg     Config
	fsys    fs.FS
	root    string // of fsys, for errors
	classes []string
	images  []entry
	tables  []*[256]float32 // by channel
	scratch sync.Pool       // of *scratch
}

// scratch is the memory of one Read, to be used again.
type scratch struct {
	file []byte
	resizer
}

var (
	_ dataloader.Dataset    = (*Set)(nil)
	_ dataloader.Overwriter = (*Set)(nil)
)

// Open returns the data set of the images in the folders in dir.
func Open(dir string, cfg Config) (*Set, error) { return New(os.DirFS(dir), dir, cfg) }

// New is [Open] for the root folder of a file system, such as an embed.FS. It is called name in errors.
func New(fsys fs.FS, name string, cfg Config) (*Set, error) {
	s := &Set{cfg: cfg, fsys: fsys, root: name}
	if fsys == nil {
		return nil, fmt.Errorf("imagefolder: New: fsys is nil: want a file system")
	}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	var err error
	if s.classes, s.images, err = scan(fsys); err != nil {
		return nil, fmt.Errorf("imagefolder: %s: %w", name, err)
	}
	if s.cfg.Dtype == tensor.Float32 {
		for c := range s.cfg.channels() {
			s.tables = append(s.tables, s.cfg.table(c))
		}
	}
	s.scratch.New = func() any { return &scratch{} }
	return s, nil
}

// Len is the number of images.
func (s *Set) Len() int { return len(s.images) }

// Overwrites is true: see [dataloader.Overwriter].
func (s *Set) Overwrites() bool { return true }

// Fields are "image" and "label".
func (s *Set) Fields() []dataloader.Field {
	c := &s.cfg
	shape := tensor.Shape{c.channels(), c.Height, c.Width}
	if c.HWC {
		shape = tensor.Shape{c.Height, c.Width, c.channels()}
	}
	return []dataloader.Field{
		Image: {Name: "image", Dtype: c.Dtype, Shape: shape},
		Label: {Name: "label", Dtype: tensor.Int64},
	}
}

// Classes returns the names of the classes, in the order of their labels.
func (s *Set) Classes() []string { return slices.Clone(s.classes) }

// Path returns the file of sample i, 0 <= i < Len().
func (s *Set) Path(i int) string { return path.Join(s.root, s.images[i].path()) }

// Class returns the label of sample i, 0 <= i < Len(), without reading it: for samplers that weigh classes.
func (s *Set) Class(i int) int { return s.images[i].class }

// Read decodes image i into row. See [dataloader.Dataset].
func (s *Set) Read(ctx context.Context, i int, row dataloader.Row) error {
	if err := s.read(ctx, i, row); err != nil {
		return fmt.Errorf("imagefolder: %s: %w", s.Path(i), err)
	}
	return nil
}

func (s *Set) read(ctx context.Context, i int, row dataloader.Row) error {
	z := s.scratch.Get().(*scratch)
	defer s.scratch.Put(z)
	var err error
	if z.file, err = readFile(s.fsys, s.images[i].path(), z.file); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m, err := decode(z.file, s.cfg.MaxPixels)
	if err != nil {
		return err
	}
	g := s.cfg.geometry(m.Bounds(), row.Rand)
	flip := s.cfg.Flip > 0 && row.Rand().Float64() < s.cfg.Flip
	pixels := z.resize(m, g, s.cfg.Gray)
	if flip {
		mirror(pixels, s.cfg.Width, s.cfg.channels())
	}
	s.store(row, pixels)
	dataloader.Values[int64](row, Label)[0] = int64(s.images[i].class)
	return nil
}

// mirror turns rows of pixels left to right.
func mirror(pixels []byte, width, channels int) {
	for line := range slices.Chunk(pixels, width*channels) {
		for a, b := 0, width-1; a < b; a, b = a+1, b-1 {
			for c := range channels {
				p, q := &line[a*channels+c], &line[b*channels+c]
				*p, *q = *q, *p
			}
		}
	}
}

// store writes the pixels, whose channels are last, as the field wants them.
func (s *Set) store(row dataloader.Row, pixels []byte) {
	channels := s.cfg.channels()
	bytes := s.cfg.Dtype == tensor.Uint8
	switch {
	case bytes && (s.cfg.HWC || channels == 1):
		copy(dataloader.Values[uint8](row, Image), pixels)
	case bytes:
		dst := dataloader.Values[uint8](row, Image)
		n := len(dst) / 3
		for k := range n {
			p := pixels[3*k : 3*k+3 : 3*k+3]
			dst[k], dst[n+k], dst[2*n+k] = p[0], p[1], p[2]
		}
	case channels == 1:
		dst, table := dataloader.Values[float32](row, Image), s.tables[0]
		for k, v := range pixels {
			dst[k] = table[v]
		}
	case s.cfg.HWC:
		dst := dataloader.Values[float32](row, Image)
		red, green, blue := s.tables[0], s.tables[1], s.tables[2]
		for k := 0; k+3 <= len(dst); k += 3 {
			p, q := pixels[k:k+3:k+3], dst[k:k+3:k+3]
			q[0], q[1], q[2] = red[p[0]], green[p[1]], blue[p[2]]
		}
	default:
		dst := dataloader.Values[float32](row, Image)
		n := len(dst) / 3
		r, g, b := dst[:n], dst[n:2*n], dst[2*n:]
		red, green, blue := s.tables[0], s.tables[1], s.tables[2]
		for k := range r {
			p := pixels[3*k : 3*k+3 : 3*k+3]
			r[k], g[k], b[k] = red[p[0]], green[p[1]], blue[p[2]]
		}
	}
}
