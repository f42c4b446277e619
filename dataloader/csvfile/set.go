package csvfile

// The data set.

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/internal/datafile"
)

// Set is a [dataloader.Dataset] of the records of a file.
type Set struct {
	index
	cfg     Config
	file    *datafile.File
	base    int64            // where what was indexed begins in the file
	header  []string         // names of columns
	columns [][]int          // of each field
	numbers []map[string]int // of the categories of each field
	parsers sync.Pool        // of *parser
}

// parser is what one Read needs, to be used again.
type parser struct {
	buf []byte
	in  source
	csv *csv.Reader
}

// source is a reader of bytes that can be given new ones.
type source struct{ left []byte }

func (s *source) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

var (
	_ dataloader.Dataset    = (*Set)(nil)
	_ dataloader.Overwriter = (*Set)(nil)
)

// Open returns the data set of the records of the file at path. It reads all of the file once.
func Open(path string, cfg Config) (*Set, error) {
	f, err := datafile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("csvfile: %w", err) // it names the file
	}
	s, err := newSet(f, cfg)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// New is [Open] for a file that r has the size bytes of: an [fs.File] that is an io.ReaderAt, or memory. It
// is called name in errors. r stays the caller's, and must allow ReadAt from several goroutines at once.
func New(r io.ReaderAt, size int64, name string, cfg Config) (*Set, error) {
	return newSet(datafile.New(r, size, name), cfg)
}

func newSet(f *datafile.File, cfg Config) (*Set, error) {
	s := &Set{cfg: cfg, file: f}
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	if err := s.scan(); err != nil {
		return nil, fmt.Errorf("csvfile: %s: %w", f.Name(), err)
	}
	s.parsers.New = func() any {
		p := &parser{}
		p.csv = s.reader(&p.in)
		return p
	}
	return s, nil
}

func (s *Set) reader(r io.Reader) *csv.Reader {
	c := csv.NewReader(r)
	c.Comma, c.Comment = s.cfg.Comma, s.cfg.Comment
	c.FieldsPerRecord = -1 // checked when a record is read, for a better text
	c.ReuseRecord = true
	return c
}

// String says what the set is of.
func (s *Set) String() string {
	return fmt.Sprintf("csvfile.Set(%d records of %s)", s.Len(), s.file.Name())
}

// Len is the number of records.
func (s *Set) Len() int { return len(s.starts) - 1 }

// Overwrites is true: see [dataloader.Overwriter].
func (s *Set) Overwrites() bool { return true }

// Fields are those of the Config.
func (s *Set) Fields() []dataloader.Field {
	fields := make([]dataloader.Field, len(s.cfg.Fields))
	for i, f := range s.cfg.Fields {
		fields[i] = dataloader.Field{Name: f.Name, Dtype: f.Dtype}
		if n := len(s.columns[i]); n > 1 || f.Columns == nil {
			fields[i].Shape = tensor.Shape{n}
		}
	}
	return fields
}

// Header returns the names of all columns.
func (s *Set) Header() []string { return slices.Clone(s.header) }

// Categories returns the words whose numbers a field has, those of [Config] or found in the file, and nil for a
// field of numbers, and where there is no such field.
func (s *Set) Categories(field int) []string {
	if field < 0 || field >= len(s.cfg.Fields) {
		return nil
	}
	return slices.Clone(s.cfg.Fields[field].Categories)
}

// Read parses record i into row. See [dataloader.Dataset].
func (s *Set) Read(_ context.Context, i int, row dataloader.Row) error {
	p := s.parsers.Get().(*parser)
	n := int(s.starts[i+1] - s.starts[i]) // little more than MaxRecord at most
	p.buf = slices.Grow(p.buf[:0], n)[:n]
	if k, err := s.file.ReadAt(p.buf, s.base+s.starts[i]); k < n {
		return fmt.Errorf("csvfile: %s: line %d: %w", s.file.Name(), s.line(i), err)
	}
	p.in.left = p.buf
	record, err := p.csv.Read()
	if err != nil {
		// The reader is not used again: what it still has is of this record.
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			err = fmt.Errorf("at byte %d of line %d: %w", bad.Column, s.line(i)+bad.Line-bad.StartLine, bad.Err)
		}
		return fmt.Errorf("csvfile: %s: line %d: %w", s.file.Name(), s.line(i), badf("%w", err))
	}
	err = s.store(record, row)
	s.parsers.Put(p)
	if err != nil {
		return fmt.Errorf("csvfile: %s: line %d: %w", s.file.Name(), s.line(i), err)
	}
	return nil
}

// store writes the columns of a record where they belong.
func (s *Set) store(record []string, row dataloader.Row) error {
	if len(record) != len(s.header) {
		return badf("%d columns, expected %d", len(record), len(s.header))
	}
	for i := range s.cfg.Fields {
		f := &s.cfg.Fields[i]
		bad, err := -1, error(nil)
		switch f.Dtype {
		case tensor.Float32:
			bad, err = parse(dataloader.Values[float32](row, i), record, s.columns[i], func(cell string) (float32, error) {
				x, err := s.float(cell, 32)
				return float32(x), err
			})
		case tensor.Float64:
			bad, err = parse(dataloader.Values[float64](row, i), record, s.columns[i], func(cell string) (float64, error) {
				return s.float(cell, 64)
			})
		case tensor.Int64:
			bad, err = parse(dataloader.Values[int64](row, i), record, s.columns[i], func(cell string) (int64, error) {
				return s.integer(i, cell, 64)
			})
		case tensor.Int32:
			bad, err = parse(dataloader.Values[int32](row, i), record, s.columns[i], func(cell string) (int32, error) {
				x, err := s.integer(i, cell, 32)
				return int32(x), err
			})
		case tensor.Uint8:
			bad, err = parse(dataloader.Values[uint8](row, i), record, s.columns[i], func(cell string) (uint8, error) {
				x, err := strconv.ParseUint(strings.TrimSpace(cell), 10, 8)
				return uint8(x), err
			})
		}
		if err != nil {
			return s.badCell(f, bad, record[bad], err)
		}
	}
	return nil
}

// parse converts the columns of a record. It returns the number of the first that could not be.
func parse[T any](dst []T, record []string, columns []int, convert func(cell string) (T, error)) (bad int, err error) {
	for k, c := range columns {
		if dst[k], err = convert(record[c]); err != nil {
			return c, err
		}
	}
	return -1, nil
}

var errCategory = errors.New("is none of the categories")

func (s *Set) float(cell string, bits int) (float64, error) {
	cell = strings.TrimSpace(cell)
	if cell == "" && s.cfg.EmptyIsNaN {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(cell, bits)
}

func (s *Set) integer(field int, cell string, bits int) (int64, error) {
	if !s.cfg.Fields[field].Category {
		return strconv.ParseInt(strings.TrimSpace(cell), 10, bits)
	}
	if k, ok := s.numbers[field][cell]; ok {
		return int64(k), nil
	}
	return 0, errCategory
}

// badCell says what is wrong with a cell.
func (s *Set) badCell(f *Field, column int, cell string, err error) error {
	switch name := s.header[column]; {
	case errors.Is(err, errCategory):
		return badf("column %q: %.100q is none of the %d categories, which are %.200q", name, cell, len(f.Categories), f.Categories)
	case errors.Is(err, strconv.ErrRange):
		return badf("column %q: %.100q is out of the range of %v", name, cell, f.Dtype)
	default:
		return badf("column %q: %.100q is no %v", name, cell, f.Dtype)
	}
}

// Close closes the file. Reads after it are errors. Further calls return nil.
func (s *Set) Close() error {
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("csvfile: %s: %w", s.file.Name(), err)
	}
	return nil
}
