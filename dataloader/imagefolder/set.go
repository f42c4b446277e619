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
	decoder *Decoder
	fsys    fs.FS
	root    string // of fsys, for errors
	classes []string
	images  []entry
	files   sync.Pool // of *[]byte, for what is in a file
}

var (
	_ dataloader.Dataset    = (*Set)(nil)
	_ dataloader.Overwriter = (*Set)(nil)
)

// Open returns the data set of the images in the folders in dir.
func Open(dir string, cfg Config) (*Set, error) { return New(os.DirFS(dir), dir, cfg) }

// New is [Open] for the root folder of a file system, such as an embed.FS. It is called name in errors.
func New(fsys fs.FS, name string, cfg Config) (*Set, error) {
	if fsys == nil {
		return nil, fmt.Errorf("imagefolder: New: fsys is nil: want a file system")
	}
	d, err := NewDecoder(cfg)
	if err != nil {
		return nil, err
	}
	s := &Set{decoder: d, fsys: fsys, root: name}
	if s.classes, s.images, err = scan(fsys); err != nil {
		return nil, fmt.Errorf("imagefolder: %s: %w", name, err)
	}
	s.files.New = func() any { return new([]byte) }
	return s, nil
}

// String says what the set is of.
func (s *Set) String() string {
	return fmt.Sprintf("imagefolder.Set(%d images of %d classes in %s)", len(s.images), len(s.classes), s.root)
}

// Len is the number of images.
func (s *Set) Len() int { return len(s.images) }

// Overwrites is true: see [dataloader.Overwriter].
func (s *Set) Overwrites() bool { return true }

// Fields are "image" and "label".
func (s *Set) Fields() []dataloader.Field {
	return []dataloader.Field{Image: s.decoder.Field("image"), Label: {Name: "label", Dtype: tensor.Int64}}
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
	file := s.files.Get().(*[]byte)
	defer s.files.Put(file)
	var err error
	if *file, err = readFile(s.fsys, s.images[i].path(), *file); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.decoder.decode(*file, row, Image); err != nil {
		return err
	}
	dataloader.Values[int64](row, Label)[0] = int64(s.images[i].class)
	return nil
}
