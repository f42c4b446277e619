package npy

// The data set: where each field's samples are, and reading them.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/internal/datafile"
	"github.com/pintensor/pin/internal/gather"
)

// Set is a [dataloader.Dataset] of arrays of one length, a field each. It is a [dataloader.BatchReader] too.
type Set struct {
	n      int
	fields []dataloader.Field
	from   []source
	files  []*datafile.File // to be closed
}

// source is where the samples of a field are.
type source struct {
	*header
	file   *datafile.File
	name   string // of the file and the entry
	size   int    // of a sample in bytes
	gather *gather.Rows
}

var (
	_ dataloader.Dataset     = (*Set)(nil)
	_ dataloader.BatchReader = (*Set)(nil)
	_ dataloader.Overwriter  = (*Set)(nil)
)

// add makes a field of the array in the size bytes of f that begin at start. name is what errors call it.
func (s *Set) add(f *datafile.File, start, size int64, name, field string) error {
	h, err := readHeader(f, start, size)
	if err == nil {
		err = h.check()
	}
	if err == nil && len(s.from) > 0 && h.shape[0] != s.n {
		err = badf("%d samples (shape %v), expected %d as in %s", h.shape[0], tuple(h.shape), s.n, s.from[0].name)
	}
	if err != nil {
		return fmt.Errorf("npy: %s: %w", name, err)
	}
	sample := int(h.dtype.Size())
	for _, d := range h.shape[1:] {
		sample *= d
	}
	s.n = h.shape[0]
	s.from = append(s.from, source{h, f, name, sample, new(gather.Rows)})
	s.fields = append(s.fields, dataloader.Field{Name: field, Dtype: h.dtype, Shape: tensor.Shape(h.shape[1:]).Clone()})
	return nil
}

// check refuses arrays that have no samples by their shape.
func (h *header) check() error {
	if len(h.shape) == 0 {
		return badf("shape (): a single number, expected an axis of samples")
	}
	for _, d := range h.shape[1:] {
		if d == 0 {
			return badf("shape %v: samples without elements", tuple(h.shape))
		}
	}
	return nil
}

// String says what the set is of.
func (s *Set) String() string {
	names := make([]string, len(s.from))
	for i, f := range s.from {
		names[i] = f.name
	}
	return fmt.Sprintf("npy.Set(%d samples of %s)", s.n, strings.Join(names, ", "))
}

// Len is the length of the arrays' first axis.
func (s *Set) Len() int { return s.n }

// Overwrites is true: see [dataloader.Overwriter].
func (s *Set) Overwrites() bool { return true }

// Fields has one field for each array, named after its file or entry without ".npy".
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
func (s *source) read(dst []byte, indices []int) error {
	n, err := s.file.ReadRows(dst, s.offset, s.size, indices, s.gather)
	if err != nil {
		return fmt.Errorf("npy: %s: sample %d: %w", s.name, indices[min(n/s.size, len(indices)-1)], err)
	}
	if s.swap {
		datafile.Swap(dst, s.part)
	}
	if s.dtype == tensor.Bool {
		// Go may do anything with a bool that is neither 0 nor 1.
		for k, b := range dst {
			if b > 1 {
				return fmt.Errorf("npy: %s: sample %d: %w", s.name, indices[k/s.size], badf("a bool of value %d, expected 0 or 1", b))
			}
		}
	}
	return nil
}

// Close closes the files. Reads after it are errors. Further calls return nil.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		if err := f.Close(); err != nil {
			errs = append(errs, fmt.Errorf("npy: %s: %w", f.Name(), err))
		}
	}
	return errors.Join(errs...)
}
