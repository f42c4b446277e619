package dataloader

// What sets made of other sets have in common: checked parts, rows handed on, errors that say where.

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// batchReaderOf returns ds as a BatchReader, if reading batches of it is worth it. A set made of others always has
// ReadBatch, but where its parts have only Read it would be one in name: a loop over samples that no
// timeout can tell apart.
func batchReaderOf(ds Dataset) BatchReader {
	if c, ok := ds.(interface{ batches() bool }); ok && !c.batches() {
		return nil
	}
	reader, _ := ds.(BatchReader)
	return reader
}

// overwrites reports whether ds writes every byte of a row, so that rows need not be zeroed for it.
func overwrites(ds Dataset) bool {
	if ds, ok := ds.(interface{ overwrites() bool }); ok { // of this package
		return ds.overwrites()
	}
	return claimed(ds)
}

func (d *tensorDataset) overwrites() bool { return true }

// part is a set inside another.
type part struct {
	Dataset
	name   string // as errors call it: "Subset: set", "Concat: set 1"
	n      int
	layout *layout
	reader BatchReader // nil: only Read
	whole  bool        // it overwrites
	proof  *proof
}

// newPart checks a set that another is to be made of.
func newPart(name string, ds Dataset) (part, error) {
	if ds == nil {
		return part{}, fmt.Errorf("dataloader: %s is nil: want a Dataset", name)
	}
	if f, ok := ds.(*funcDataset); ok && f.read == nil {
		return part{}, fmt.Errorf("dataloader: %s: FromFunc: read is nil: want a function", name)
	}
	if _, ok := ds.(streamed); ok {
		return part{}, fmt.Errorf("dataloader: %s is a stream, of which no sample can be asked for by number: want a set that is none "+
			"(what a stream's samples are made of is up to its Source)", name)
	}
	n := ds.Len()
	if n < 0 {
		return part{}, fmt.Errorf("dataloader: %s: Len() = %d: want >= 0", name, n)
	}
	l, err := newLayout(ds.Fields())
	if err != nil {
		return part{}, within(name, err)
	}
	return part{ds, name, n, l, batchReaderOf(ds), overwrites(ds), newProof(ds)}, nil
}

// within is an error of this package as one of what is being made: the package is named once.
func within(name string, err error) error {
	return fmt.Errorf("dataloader: %s: %s", name, strings.TrimPrefix(err.Error(), "dataloader: "))
}

// newParts checks several, which the set called call is to be made of.
func newParts(call string, sets []Dataset) ([]part, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("dataloader: %s: no sets: want at least one", call)
	}
	parts := make([]part, len(sets))
	for i, ds := range sets {
		var err error
		if parts[i], err = newPart(fmt.Sprintf("%s: set %d", call, i), ds); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// alike returns an error unless all parts have the fields of the first.
func alike(parts []part) error {
	want := parts[0].layout
	for i := 1; i < len(parts); i++ {
		have := parts[i].layout
		if len(have.fields) != len(want.fields) {
			return fmt.Errorf("dataloader: %s has %d fields: want %d, as set 0 has", parts[i].name, len(have.fields), len(want.fields))
		}
		for j := range have.fields {
			if a, b := have.fields[j].describe(), want.fields[j].describe(); a != b {
				return fmt.Errorf("dataloader: %s: field %d is %s: want %s, as in set 0", parts[i].name, j, a, b)
			}
		}
	}
	return nil
}

// read reads sample i of the part.
func (p *part) read(ctx context.Context, i int, row Row) (err error) {
	if left := p.proof.of(false); left != nil {
		err = prove(left, Rows{row.b, row.k, 1}, func() error { return p.Read(ctx, i, row) })
	} else {
		err = p.Read(ctx, i, row)
	}
	if err != nil {
		return fmt.Errorf("%s, sample %d: %w", p.name, i, err)
	}
	return nil
}

// readRows reads several samples of the part, in one call where it can.
func (p *part) readRows(ctx context.Context, indices []int, rows Rows) error {
	if p.reader == nil || len(indices) == 1 {
		for k, i := range indices {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.read(ctx, i, rows.Row(k)); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if left := p.proof.of(true); left != nil {
		err = prove(left, rows, func() error { return p.reader.ReadBatch(ctx, indices, rows) })
	} else {
		err = p.reader.ReadBatch(ctx, indices, rows)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// checkIndex returns an error for a sample that the set called call does not have. A Loader has checked that
// before; a set that is read by hand must not read another's sample, nor panic.
func checkIndex(call string, i, n int) error {
	if i < 0 || i >= n {
		return fmt.Errorf("%s: sample %d: want 0 to %d", call, i, n-1)
	}
	return nil
}

// rows returns n rows from the k-th on.
func (r Rows) rows(k, n int) Rows { return Rows{r.b, r.start + k, n} }

// translated reads indices of a set that are other indices of its part, which inner gives.
func translated(ctx context.Context, call string, n int, p *part, indices []int, rows Rows, inner func(i int) int) error {
	scratch := borrowInts(len(indices))
	defer returnInts(scratch)
	for k, i := range indices {
		if err := checkIndex(call, i, n); err != nil {
			return err
		}
		(*scratch)[k] = inner(i)
	}
	return p.readRows(ctx, *scratch, rows)
}

// mixed reads indices of a set whose samples are in several parts, of which locate tells part and place in it.
// Neighbours of one part are read together.
func mixed(ctx context.Context, call string, n int, parts []part, indices []int, rows Rows, locate func(i int) (part, index int)) error {
	scratch := borrowInts(len(indices))
	defer returnInts(scratch)
	from, current := 0, -1
	for k, i := range indices {
		if err := checkIndex(call, i, n); err != nil {
			return err
		}
		p, index := locate(i)
		if p != current {
			if k > from {
				if err := parts[current].readRows(ctx, (*scratch)[from:k], rows.rows(from, k-from)); err != nil {
					return err
				}
			}
			from, current = k, p
		}
		(*scratch)[k] = index
	}
	if current < 0 {
		return nil
	}
	return parts[current].readRows(ctx, (*scratch)[from:], rows.rows(from, len(indices)-from))
}

var intsPool = sync.Pool{New: func() any { return new([]int) }}

// borrowInts lends room for n indices. A reader that never returns keeps it.
func borrowInts(n int) *[]int {
	s := intsPool.Get().(*[]int)
	if cap(*s) < n {
		*s = make([]int, n)
	}
	*s = (*s)[:n]
	return s
}

func returnInts(s *[]int) { intsPool.Put(s) }

// shadow lends a buffer that stands for rows of another, for a part to write to: with the part's own fields,
// over memory that the caller sets. Random generators are the other's.
func shadow(l *layout, pool *sync.Pool, rows Rows) *buffer {
	b, _ := pool.Get().(*buffer)
	if b == nil {
		b = &buffer{layout: l, mem: make([][]byte, len(l.fields))}
	}
	b.origin = rows
	return b
}

// share makes a ragged field of rows the buffer's own.
func (b *buffer) share(field int, rows Rows, of int) {
	if b.ragged == nil {
		b.ragged = make([][][]byte, len(b.layout.fields))
	}
	b.ragged[field] = rows.b.ragged[of][rows.start : rows.start+rows.n]
}

// restore gives a shadow back. One whose reader never returns is not used again.
func (b *buffer) restore(pool *sync.Pool) {
	b.origin = Rows{}
	pool.Put(b)
}
