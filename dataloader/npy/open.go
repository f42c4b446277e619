package npy

// Opening .npy files.

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/pintensor/pin/internal/datafile"
)

// Open returns the data set of the .npy files at paths, a field each, named after the file without ".npy".
// Their first axes must be of one length.
func Open(paths ...string) (*Set, error) {
	if len(paths) == 0 {
		return nil, errors.New("npy: Open: no paths: want at least one")
	}
	s := &Set{}
	for _, path := range paths {
		if err := s.openFile(path); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Set) openFile(path string) error {
	f, err := datafile.Open(path)
	if err != nil {
		return fmt.Errorf("npy: %w", err) // it names the file
	}
	s.files = append(s.files, f)
	field := strings.TrimSuffix(filepath.Base(path), ".npy")
	for _, other := range s.fields {
		if other.Name == field {
			field = path // of another folder
		}
	}
	return s.add(f, 0, f.Size(), path, field)
}

// New returns the data set of one .npy file that r has the size bytes of: of an [fs.File] that is an
// io.ReaderAt, or of memory. It is called name in errors, and its field name without ".npy". r stays the
// caller's, and must allow ReadAt from several goroutines at once.
func New(r io.ReaderAt, size int64, name string) (*Set, error) {
	s := &Set{}
	if err := s.add(s.wrap(r, size, name), 0, size, name, strings.TrimSuffix(name, ".npy")); err != nil {
		return nil, err
	}
	return s, nil
}

// wrap makes a file of r, so that reads after Close are errors here too.
func (s *Set) wrap(r io.ReaderAt, size int64, name string) *datafile.File {
	f := datafile.New(r, size, name)
	s.files = append(s.files, f)
	return f
}
