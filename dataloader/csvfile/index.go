package csvfile

// Reading the file once: where its records begin, and what words are in it.

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
)

// index is where the records are. It takes 8 bytes a record, and is exact about lines without a number for each.
type index struct {
	starts []int64 // of each record, and the end of the last
	jumps  []jump  // where a record does not begin on the line after the last one's
}

// jump says that a record, and those after it up to the next jump, begin on lines from line on.
type jump struct{ record, line int }

func (x *index) add(start int64, line int) {
	n := len(x.starts)
	if n == 0 || x.line(n) != line {
		x.jumps = append(x.jumps, jump{n, line})
	}
	x.starts = append(x.starts, start)
}

// line returns the line on which record i begins.
func (x *index) line(i int) int {
	k := sort.Search(len(x.jumps), func(k int) bool { return x.jumps[k].record > i }) - 1
	return x.jumps[k].line + i - x.jumps[k].record
}

// scan reads the file, and makes the index, the columns of fields, and their categories.
func (s *Set) scan() error {
	skip, err := byteOrderMark(s.file)
	if err != nil {
		return err
	}
	in := &capped{r: io.NewSectionReader(s.file, skip, s.file.Size()-skip)}
	r := s.reader(in)
	s.base = skip
	found := make([]map[string]bool, len(s.cfg.Fields))
	end := int64(0) // of the last record, not of blank lines after it
	for {
		in.left = MaxRecord
		start := r.InputOffset()
		record, err := r.Read()
		if err == io.EOF {
			break
		}
		var bad *csv.ParseError
		if err != nil && !errors.As(err, &bad) {
			if errors.Is(err, errTooLong) {
				return badf("the record after byte %d has more than %d bytes: is there a quote without its end?", start, MaxRecord)
			}
			return err
		}
		if s.header == nil {
			if bad != nil {
				return badf("header: %w", err)
			}
			if err := s.begin(record); err != nil {
				return err
			}
			if !s.cfg.NoHeader {
				continue
			}
		}
		end = r.InputOffset()
		line := 0
		if bad != nil {
			line = bad.StartLine
		} else {
			line, _ = r.FieldPos(0)
			if err := s.learn(record, found); err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
		}
		s.add(start, line)
	}
	if s.header == nil {
		return badf("empty, expected records")
	}
	s.starts = slices.Clip(append(s.starts, end))
	s.number(found)
	return nil
}

// begin takes the first record.
func (s *Set) begin(record []string) (err error) {
	s.header = numbered(len(record))
	if !s.cfg.NoHeader {
		s.header = make([]string, len(record))
		for i, name := range record {
			s.header[i] = strings.Clone(name)
		}
	}
	s.columns, err = s.cfg.columns(s.header)
	return err
}

// learn notes the words of fields whose categories are to be found.
func (s *Set) learn(record []string, found []map[string]bool) error {
	if len(record) != len(s.header) {
		return nil // which is said when it is read
	}
	for i, f := range s.cfg.Fields {
		if !f.Category || f.Categories != nil {
			continue
		}
		if found[i] == nil {
			found[i] = make(map[string]bool)
		}
		for _, k := range s.columns[i] {
			if word := record[k]; !found[i][word] {
				if len(found[i]) == MaxCategories {
					return badf("column %q: more than %d categories", s.header[k], MaxCategories)
				}
				found[i][strings.Clone(word)] = true
			}
		}
	}
	return nil
}

// number gives the categories of each field their numbers.
func (s *Set) number(found []map[string]bool) {
	s.numbers = make([]map[string]int, len(s.cfg.Fields))
	for i := range s.cfg.Fields {
		f := &s.cfg.Fields[i]
		if !f.Category {
			continue
		}
		if f.Categories == nil {
			f.Categories = slices.Sorted(maps.Keys(found[i]))
		}
		s.numbers[i] = make(map[string]int, len(f.Categories))
		for k, word := range f.Categories {
			s.numbers[i][word] = k
		}
	}
}

// byteOrderMark returns how many bytes of it the file begins with.
func byteOrderMark(r io.ReaderAt) (int64, error) {
	var head [3]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if bytes.Equal(head[:n], []byte("\xef\xbb\xbf")) {
		return 3, nil
	}
	return 0, nil
}

var errTooLong = errors.New("record too long")

// capped is a reader that fails where a record is too long. csv.Reader keeps all of one in memory.
type capped struct {
	r    io.Reader
	left int
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.r.Read(p)
	c.left -= n
	return n, err
}
