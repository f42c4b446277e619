package idx

// A data set of IDX files.

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/internal/datafile"
	"github.com/pintensor/pin/internal/gather"
)

// elementTypes are those of the format, by their codes.
var elementTypes = [256]elementType{
	unsignedByte: {tensor.Uint8}, 0x09: {tensor.Int8}, 0x0b: {tensor.Int16},
	0x0c: {tensor.Int32}, 0x0d: {tensor.Float32}, 0x0e: {tensor.Float64},
}

type elementType struct{ tensor.Dtype }

// Size is 0 for a code that has no type.
func (t elementType) Size() uintptr {
	if t.Type == nil {
		return 0
	}
	return t.Dtype.Size()
}

// Set is a [dataloader.Dataset] of arrays of one length, a field each. It is a [dataloader.BatchReader] too.
type Set struct {
	n      int
	fields []dataloader.Field
	from   []from
	files  []*datafile.File // to be closed
}

// from is where the samples of a field are.
type from struct {
	file   *datafile.File
	path   string
	offset int64
	size   int // of a sample in bytes
	swap   int // bytes of what must be swapped; 0: nothing
	gather *gather.Rows
}

var (
	_ dataloader.Dataset     = (*Set)(nil)
	_ dataloader.BatchReader = (*Set)(nil)
	_ dataloader.Overwriter  = (*Set)(nil)
)

// Open returns the data set of the files at paths, compressed with gzip or not, a field each, named after the file
// without ".gz". Their first dimensions are the samples, and must be equal.
func Open(paths ...string) (*Set, error) {
	if len(paths) == 0 {
		return nil, errors.New("idx: Open: no paths: want at least one")
	}
	s := &Set{}
	for _, path := range paths {
		f, err := datafile.Open(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("idx: %w", err), s.Close()) // it names the file
		}
		s.files = append(s.files, f)
		if err := s.add(f); err != nil {
			return nil, errors.Join(fmt.Errorf("idx: %s: %w", path, err), s.Close())
		}
	}
	return s, nil
}

// add makes a field of a file.
func (s *Set) add(f *datafile.File) error {
	h, data, err := begin(f)
	if err != nil {
		return err
	}
	size := h.size
	for _, d := range h.dims[1:] {
		if d == 0 {
			return fmt.Errorf("%w: dimensions %v: samples without elements", ErrFormat, h.dims)
		}
		size *= d
	}
	if len(s.from) > 0 && h.dims[0] != s.n {
		return fmt.Errorf("%w: %d samples (dimensions %v), expected %d as in %s", ErrFormat, h.dims[0], h.dims, s.n, s.from[0].path)
	}
	name := strings.TrimSuffix(filepath.Base(f.Name()), ".gz")
	for _, other := range s.fields {
		if other.Name == name {
			name = f.Name() // of another folder
		}
	}
	at := from{file: f, path: f.Name(), offset: h.len, size: size, gather: new(gather.Rows)}
	if data != nil {
		at.file, at.offset = datafile.New(bytes.NewReader(data), int64(len(data)), f.Name()), 0
		s.files = append(s.files, at.file)
	}
	if h.size > 1 && !datafile.BigEndian {
		at.swap = h.size
	}
	s.n = h.dims[0]
	s.from = append(s.from, at)
	s.fields = append(s.fields, dataloader.Field{Name: name, Dtype: elementTypes[h.code].Dtype, Shape: tensor.Shape(h.dims[1:])})
	return nil
}

// begin reads the header of a file, and if it is compressed the elements too.
func begin(f *datafile.File) (*header, []byte, error) {
	in := bufio.NewReader(io.NewSectionReader(f, 0, f.Size()))
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" {
		h, err := readHeader(in)
		if err != nil {
			return nil, nil, err
		}
		switch have := f.Size() - h.len; {
		case have < h.n:
			return nil, nil, fmt.Errorf("%w: truncated: %d bytes of elements, expected %d", ErrFormat, have, h.n)
		case have > h.n:
			return nil, nil, fmt.Errorf("%w: data after the %d bytes that its header %v announces", ErrFormat, h.n, h.dims)
		}
		return h, nil, nil
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, nil, badGzip(err)
	}
	h, err := readHeader(unzipped)
	if err != nil {
		return nil, nil, err
	}
	data, err := readElements(unzipped, h)
	return h, data, err
}

// String says what the set is of.
func (s *Set) String() string {
	paths := make([]string, len(s.from))
	for i, f := range s.from {
		paths[i] = f.path
	}
	return fmt.Sprintf("idx.Set(%d samples of %s)", s.n, strings.Join(paths, ", "))
}

// Len is the files' first dimension.
func (s *Set) Len() int { return s.n }

// Overwrites is true: see [dataloader.Overwriter].
func (s *Set) Overwrites() bool { return true }

// Fields has one field for each file.
func (s *Set) Fields() []dataloader.Field { return s.fields }

// Read copies sample i out of the files. See [dataloader.Dataset].
func (s *Set) Read(_ context.Context, i int, row dataloader.Row) error {
	rows := [1]int{i}
	for f := range s.from {
		if err := s.from[f].read(row.Bytes(f), rows[:]); err != nil {
			return err
		}
	}
	return nil
}

// ReadBatch copies many samples, field by field. See [dataloader.BatchReader].
func (s *Set) ReadBatch(_ context.Context, indices []int, rows dataloader.Rows) error {
	for f := range s.from {
		if err := s.from[f].read(rows.Bytes(f), indices); err != nil {
			return err
		}
	}
	return nil
}

// read fills dst with the samples at indices.
func (s *from) read(dst []byte, indices []int) error {
	if n, err := s.file.ReadRows(dst, s.offset, s.size, indices, s.gather); err != nil {
		return fmt.Errorf("idx: %s: sample %d: %w", s.path, indices[min(n/s.size, len(indices)-1)], err)
	}
	if s.swap > 0 {
		datafile.Swap(dst, s.swap)
	}
	return nil
}

// Close closes the files. Reads after it are errors. Further calls return nil.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		if err := f.Close(); err != nil {
			errs = append(errs, fmt.Errorf("idx: %s: %w", f.Name(), err))
		}
	}
	return errors.Join(errs...)
}
