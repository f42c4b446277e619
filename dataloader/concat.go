package dataloader

// Sets one after the other.

import (
	"context"
	"fmt"
	"sort"
	"strings"
)

// Concat returns the set that has all samples of the first set, then all of the second, and so on: PyTorch's
// ConcatDataset. The sets must have the same fields, with the same names: a difference is an error that names set and
// field. A set of no samples is fine. Batches keep the speed of [BatchReader] where all sets have it, best if
// neighbours in a batch are of the same set.
func Concat(sets ...Dataset) (Dataset, error) {
	parts, err := newParts("Concat", sets)
	if err != nil {
		return nil, err
	}
	if err := alike(parts); err != nil {
		return nil, err
	}
	c := &concat{several: several{parts, "Concat"}, ends: make([]int, len(parts))}
	for j := range parts {
		if parts[j].n > maxInt-c.n {
			return nil, fmt.Errorf("dataloader: Concat: the sets up to number %d have more than %d samples together", j, maxInt)
		}
		c.n += parts[j].n
		c.ends[j] = c.n
	}
	return c, nil
}

// several are the parts of a set.
type several struct {
	parts []part
	call  string
}

func (s *several) Fields() []Field { return s.parts[0].Fields() }

func (s *several) batches() bool {
	for j := range s.parts {
		if s.parts[j].reader == nil {
			return false
		}
	}
	return true
}

func (s *several) overwrites() bool {
	for j := range s.parts {
		if !s.parts[j].whole {
			return false
		}
	}
	return true
}

// String says what the set is made of.
func (s *several) String() string {
	texts := make([]string, len(s.parts))
	for j := range s.parts {
		texts[j] = describeSet(s.parts[j].Dataset)
	}
	return s.call + "(" + strings.Join(texts, ", ") + ")"
}

type concat struct {
	several
	n    int
	ends []int // of each part's samples
}

func (c *concat) Len() int { return c.n }

func (c *concat) locate(i int) (part, index int) {
	part = sort.SearchInts(c.ends, i+1) // the first whose samples end after i
	return part, i - (c.ends[part] - c.parts[part].n)
}

func (c *concat) Read(ctx context.Context, i int, row Row) error {
	if err := checkIndex(c.call, i, c.n); err != nil {
		return err
	}
	part, index := c.locate(i)
	return c.parts[part].read(ctx, index, row)
}

func (c *concat) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return mixed(ctx, c.call, c.n, c.parts, indices, rows, c.locate)
}
