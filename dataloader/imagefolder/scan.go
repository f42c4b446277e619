package imagefolder

// Finding the classes and their images.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// maxDepth is how deep folders in folders may be: links can make a circle.
const maxDepth = 64

// entry is an image.
type entry struct {
	dir, name string // the string of dir is shared by the images in it
	class     int
}

func (e entry) path() string { return path.Join(e.dir, e.name) }

// scan returns the classes and the images of fsys.
func scan(fsys fs.FS) (classes []string, images []entry, err error) {
	top, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, nil, err
	}
	for _, d := range top { // they are in order
		mode, err := kind(fsys, d.Name(), d)
		if err != nil {
			return nil, nil, err
		}
		if mode.IsDir() {
			classes = append(classes, d.Name())
		}
	}
	if len(classes) == 0 {
		return nil, nil, errors.New("no folders in it, expected one for each class")
	}
	for class, name := range classes {
		before := len(images)
		if images, err = walk(fsys, name, class, 1, images); err != nil {
			return nil, nil, err
		}
		found := images[before:]
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("no .jpg, .jpeg or .png files in the folder of class %q", name)
		}
		slices.SortFunc(found, func(a, b entry) int {
			return cmp.Or(strings.Compare(a.dir, b.dir), strings.Compare(a.name, b.name))
		})
	}
	return classes, images, nil
}

// walk adds the images in dir and the folders in it.
func walk(fsys fs.FS, dir string, class, depth int, images []entry) ([]entry, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: more than %d folders deep: do links make a circle?", dir, maxDepth)
	}
	list, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		at := path.Join(dir, d.Name())
		mode, err := kind(fsys, at, d)
		switch {
		case err != nil:
			return nil, err
		case mode.IsDir():
			if images, err = walk(fsys, at, class, depth+1, images); err != nil {
				return nil, err
			}
		case mode.IsRegular() && isImage(d.Name()):
			images = append(images, entry{dir, d.Name(), class})
		}
	}
	return images, nil
}

// kind returns what d is, or what it links to. A link that leads nowhere is fs.ModeIrregular.
func kind(fsys fs.FS, at string, d fs.DirEntry) (fs.FileMode, error) {
	if d.Type()&fs.ModeSymlink == 0 {
		return d.Type(), nil
	}
	info, err := fs.Stat(fsys, at)
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ModeIrregular, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Mode().Type(), nil
}

func isImage(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".jpg", ".jpeg", ".png":
		return true
	}
	return false
}
