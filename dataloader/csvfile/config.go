package csvfile

// What a Set can be told, and what is refused.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"gorgonia.org/tensor"
)

// ErrFormat is in the chain of every error about the contents of a file, as opposed to errors of opening
// and reading it.
var ErrFormat = errors.New("not a readable CSV file")

const (
	// MaxRecord is how many bytes a record may have.
	MaxRecord = 16 << 20

	// MaxCategories is how many categories of a field are found at most where Field.Categories is nil.
	MaxCategories = 1 << 20
)

// Config is what a [Set] is told. Only Fields has no default.
type Config struct {
	// Fields says which columns make which field of a sample.
	Fields []Field

	// NoHeader says that the first record is a sample, and not the names of the columns. These are "0", "1", ... then.
	NoHeader bool

	// Comma is what separates columns. 0: ','.
	Comma rune

	// Comment begins lines that are left out. 0: none does.
	Comment rune

	// EmptyIsNaN makes a NaN of an empty cell of a column of floats. Without it one is an error.
	EmptyIsNaN bool
}

// Field is columns that become a field of a sample.
type Field struct {
	// Name is that of the field. Empty: the column's, if there is one.
	Name string

	// Columns are the names of the columns. One makes a scalar, several a vector. Nil: all columns that no other
	// field names, as a vector.
	Columns []string

	// Dtype is the type of the elements: tensor.Float32, which is the default, Float64, Int64, Int32 or Uint8. That of
	// categories is Int64 or Int32, and the default Int64.
	Dtype tensor.Dtype

	// Category says that the cells are words, each of which becomes its number in Categories.
	Category bool

	// Categories are the words. Nil: those found in the file, sorted. Give those of the training set when
	// you open the test set, or the numbers may differ. Without Category it must be nil.
	Categories []string
}

// check fills in defaults, and returns an error that names the first value that makes no sense.
func (c *Config) check() error {
	if len(c.Fields) == 0 {
		return errors.New("csvfile: Config.Fields is empty: want at least one field")
	}
	if c.Comma == 0 {
		c.Comma = ','
	}
	if !separates(c.Comma) {
		return fmt.Errorf("csvfile: Config.Comma = %q: want a character that is no quote and no end of a line", c.Comma)
	}
	if c.Comment != 0 && (!separates(c.Comment) || c.Comment == c.Comma) {
		return fmt.Errorf("csvfile: Config.Comment = %q: want a character that is no quote, no end of a line and not Comma", c.Comment)
	}
	c.Fields = slices.Clone(c.Fields)
	rest := -1
	for i := range c.Fields {
		f := &c.Fields[i]
		if f.Columns == nil && rest >= 0 {
			return fmt.Errorf("csvfile: Config.Fields[%d].Columns is nil, as is that of field %d: want one field for the remaining columns", i, rest)
		}
		if f.Columns == nil {
			rest = i
		} else if len(f.Columns) == 0 {
			return fmt.Errorf("csvfile: Config.Fields[%d].Columns is empty: want names, or nil for the remaining columns", i)
		}
		if f.Name == "" && len(f.Columns) == 1 {
			f.Name = f.Columns[0]
		}
		if err := f.checkType(i); err != nil {
			return err
		}
	}
	return nil
}

// separates reports whether encoding/csv takes r for Comma or Comment.
func separates(r rune) bool {
	return r != 0 && r != '"' && r != '\r' && r != '\n' && utf8.ValidRune(r) && r != utf8.RuneError
}

func (f *Field) checkType(i int) error {
	if f.Dtype.Type == nil {
		f.Dtype = tensor.Float32
		if f.Category {
			f.Dtype = tensor.Int64
		}
	}
	whole := f.Dtype == tensor.Int64 || f.Dtype == tensor.Int32
	switch {
	case f.Category && !whole:
		return fmt.Errorf("csvfile: Config.Fields[%d].Dtype = %v: want tensor.Int64 or Int32 with Category", i, f.Dtype)
	case !whole && f.Dtype != tensor.Float32 && f.Dtype != tensor.Float64 && f.Dtype != tensor.Uint8:
		return fmt.Errorf("csvfile: Config.Fields[%d].Dtype = %v: want tensor.Float32, Float64, Int64, Int32 or Uint8", i, f.Dtype)
	case !f.Category && f.Categories != nil:
		return fmt.Errorf("csvfile: Config.Fields[%d].Categories = %.100q: want nil without Category", i, f.Categories)
	}
	seen := make(map[string]bool, len(f.Categories))
	for _, word := range f.Categories {
		if seen[word] {
			return fmt.Errorf("csvfile: Config.Fields[%d].Categories has %q twice", i, word)
		}
		seen[word] = true
	}
	return nil
}

// columns finds, for each field, the numbers of its columns in the header.
func (c *Config) columns(header []string) ([][]int, error) {
	at := make(map[string]int, len(header))
	twice := make(map[string]bool)
	for i, name := range header {
		if _, known := at[name]; known {
			twice[name] = true
		}
		at[name] = i
	}
	used := make([]bool, len(header))
	found := make([][]int, len(c.Fields))
	for i, f := range c.Fields {
		for _, name := range f.Columns {
			k, ok := at[name]
			if !ok {
				return nil, badf("no column %q, there are %.500q", name, header)
			}
			if twice[name] {
				return nil, badf("several columns are named %q", name)
			}
			found[i] = append(found[i], k)
			used[k] = true
		}
	}
	for i, f := range c.Fields {
		if f.Columns != nil {
			continue
		}
		for k := range header {
			if !used[k] {
				found[i] = append(found[i], k)
			}
		}
		if len(found[i]) == 0 {
			return nil, badf("no columns remain for Config.Fields[%d], there are %.500q", i, header)
		}
	}
	return found, nil
}

// numbered returns the names of n columns without a header.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

func badf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}
