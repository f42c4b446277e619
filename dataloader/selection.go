package dataloader

// Sets that are other samples of one set: some of it, or all of it several times.

import (
	"context"
	"fmt"
	"slices"
)

// selection is a set of n samples, of which number i is sample index(i) of its part.
type selection struct {
	part
	call  string
	n     int
	index func(i int) int
}

func (s *selection) Len() int { return s.n }

func (s *selection) Read(ctx context.Context, i int, row Row) error {
	if err := checkIndex(s.call, i, s.n); err != nil {
		return err
	}
	return s.read(ctx, s.index(i), row)
}

func (s *selection) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return translated(ctx, s.call, s.n, &s.part, indices, rows, s.index)
}

func (s *selection) batches() bool    { return s.reader != nil }
func (s *selection) overwrites() bool { return s.whole }

// String says what the set is made of.
func (s *selection) String() string {
	return fmt.Sprintf("%s(%d samples of %s)", s.call, s.n, describeSet(s.Dataset))
}

// describeSet writes a set for people: as it writes itself, or its type and length.
func describeSet(ds Dataset) string {
	if s, ok := ds.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T(%d)", ds, ds.Len())
}

// Subset returns the set of the given samples of ds, in this order: PyTorch's Subset. A sample may be in it more
// than once. It keeps a copy of indices. Its sample i is sample indices[i] of ds, but has the [Row.Rand] of number i.
// An index that ds does not have is an error that names it.
func Subset(ds Dataset, indices []int) (Dataset, error) {
	p, err := newPart("Subset: set", ds)
	if err != nil {
		return nil, err
	}
	for k, i := range indices {
		if i < 0 || i >= p.n {
			return nil, fmt.Errorf("dataloader: Subset: indices[%d] = %d: want 0 to %d", k, i, p.n-1)
		}
	}
	indices = slices.Clone(indices)
	return &selection{p, "Subset", len(indices), func(i int) int { return indices[i] }}, nil
}

// Repeat returns the set that has all samples of ds, in order, times (>= 0) times over: to make epochs of a small set
// longer. Sample i is sample i % ds.Len() of ds, and each repetition has another [Row.Rand].
func Repeat(ds Dataset, times int) (Dataset, error) {
	p, err := newPart("Repeat: set", ds)
	if err != nil {
		return nil, err
	}
	if times < 0 || p.n > 0 && times > maxInt/p.n {
		return nil, fmt.Errorf("dataloader: Repeat: times = %d: want 0 to %d", times, maxInt/max(p.n, 1))
	}
	return &selection{p, "Repeat", p.n * times, func(i int) int { return i % p.n }}, nil
}
