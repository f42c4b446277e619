package dataloader

// Sets whose samples are made from those of another.

import (
	"context"
	"fmt"
	"sync"
)

// Map returns the set whose sample i fn makes from sample i of ds: in has the fields of ds, out the given ones. fn
// is like [Dataset.Read]: it is called from several goroutines at once, keeps neither row, and finds out zeroed (see
// [Overwriting]). What is random in it, such as augmentation, should come from out.Rand(). It may change in.
//
// Samples of ds are read into ordinary memory, of which there is about as much as workers fill at a time. Where
// fields do not change, [MapInPlace] does without.
func Map(ds Dataset, fields []Field, fn func(ctx context.Context, i int, in, out Row) error) (Dataset, error) {
	p, err := newPart("Map: set", ds)
	if err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fmt.Errorf("dataloader: Map: fn is nil: want a function")
	}
	out, err := newLayout(fields)
	if err != nil {
		return nil, within("Map", err)
	}
	return &mapped{part: p, fields: out.fields, fn: fn}, nil
}

type mapped struct {
	part
	fields    []Field
	fn        func(ctx context.Context, i int, in, out Row) error
	writesAll bool      // fn writes all of out
	pool      sync.Pool // of shadows with memory of their own
}

func (m *mapped) Fields() []Field { return m.fields }

func (m *mapped) Read(ctx context.Context, i int, row Row) error {
	in := m.borrow(Rows{row.b, row.k, 1})
	defer in.restore(&m.pool)
	if err := m.read(ctx, i, Row{in, 0}); err != nil {
		return err
	}
	return m.apply(ctx, i, Row{in, 0}, row)
}

func (m *mapped) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	if len(indices) == 0 {
		return nil
	}
	in := m.borrow(rows)
	defer in.restore(&m.pool)
	if err := m.readRows(ctx, indices, Rows{in, 0, rows.n}); err != nil {
		return err
	}
	for k, i := range indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.apply(ctx, i, Row{in, k}, rows.Row(k)); err != nil {
			return err
		}
	}
	return nil
}

// apply calls fn with out zeroed: here, where the row is about to be written, rather than by the Loader all rows of a batch,
// of which the first have left the caches when the last are cleared.
func (m *mapped) apply(ctx context.Context, i int, in, out Row) error {
	if !m.writesAll {
		out.b.zero(out.k, out.k+1)
	}
	if err := m.fn(ctx, i, in, out); err != nil {
		return fmt.Errorf("Map: %w", err)
	}
	return nil
}

// borrow lends zeroed memory for the samples that are to become rows.
func (m *mapped) borrow(rows Rows) *buffer {
	in := shadow(m.layout, &m.pool, rows)
	for f, size := range m.layout.rowBytes {
		if need := rows.n * size; cap(in.mem[f]) < need {
			in.mem[f] = alignedBytes(need)
		} else {
			in.mem[f] = in.mem[f][:need]
			if !m.whole {
				clear(in.mem[f])
			}
		}
	}
	in.fitRagged(rows.n)
	for k := 0; k < rows.n && in.ragged != nil; k++ {
		in.emptyRagged(k)
	}
	return in
}

func (m *mapped) batches() bool    { return m.reader != nil }
func (m *mapped) overwrites() bool { return true } // or apply does
func (m *mapped) claims() bool     { return m.writesAll }
func (m *mapped) String() string   { return "Map(" + describeSet(m.Dataset) + ")" }

// MapInPlace returns ds with each sample changed by fn, in its row of the batch: normalised, flipped. The fields are those
// of ds. fn finds sample i in row. It is called from several goroutines at once, and must not keep row. What is
// random in it should come from row.Rand(), which goes on where the Read of ds has left it.
func MapInPlace(ds Dataset, fn func(ctx context.Context, i int, row Row) error) (Dataset, error) {
	p, err := newPart("MapInPlace: set", ds)
	if err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fmt.Errorf("dataloader: MapInPlace: fn is nil: want a function")
	}
	return &mappedInPlace{p, fn}, nil
}

type mappedInPlace struct {
	part
	fn func(ctx context.Context, i int, row Row) error
}

func (m *mappedInPlace) Read(ctx context.Context, i int, row Row) error {
	if err := m.read(ctx, i, row); err != nil {
		return err
	}
	if err := m.fn(ctx, i, row); err != nil {
		return fmt.Errorf("MapInPlace: %w", err)
	}
	return nil
}

func (m *mappedInPlace) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	if err := m.readRows(ctx, indices, rows); err != nil {
		return err
	}
	for k, i := range indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.fn(ctx, i, rows.Row(k)); err != nil {
			return fmt.Errorf("MapInPlace: %w", err)
		}
	}
	return nil
}

func (m *mappedInPlace) batches() bool    { return m.reader != nil }
func (m *mappedInPlace) overwrites() bool { return m.whole }
func (m *mappedInPlace) String() string   { return "MapInPlace(" + describeSet(m.Dataset) + ")" }
