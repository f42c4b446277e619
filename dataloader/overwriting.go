package dataloader

// Saying of a set that it writes whole rows.

import (
	"context"
	"slices"
)

// Overwriting returns ds as a set that is an [Overwriter]: its Read, and ReadBatch if it has one, promise to write every byte
// of every row, so that rows are not zeroed first, which takes up to a third as long as reading them. It is for sets
// that can't say so themselves, such as those of [FromFunc] and [Map]. ds is not changed.
//
// The first calls have to prove the promise, as Overwriter says. A set with a field whose shape differs between samples is
// returned as it is: its rows are zeroed in any case. A ds that is nil, a stream, or has fields that New would refuse is an error.
func Overwriting(ds Dataset) (Dataset, error) {
	p, err := newPart("Overwriting: set", ds)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(p.layout.fields, Field.ragged) {
		return ds, nil
	}
	switch ds := ds.(type) {
	case *funcDataset:
		return &funcDataset{ds.n, ds.fields, ds.read, true}, nil
	case *mapped:
		return &mapped{part: ds.part, fields: ds.fields, fn: ds.fn, writesAll: true}, nil
	}
	p.proof = nil // that of what uses this
	return &overwriting{p}, nil
}

// overwriting is a set of whose type nothing is known.
type overwriting struct{ part }

func (o *overwriting) Read(ctx context.Context, i int, row Row) error {
	return o.read(ctx, i, row)
}

func (o *overwriting) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return o.readRows(ctx, indices, rows)
}

func (o *overwriting) batches() bool    { return o.reader != nil }
func (o *overwriting) overwrites() bool { return true }
func (o *overwriting) claims() bool     { return true }
func (o *overwriting) String() string   { return describeSet(o.Dataset) }

// Fingerprint is that of the set itself.
func (o *overwriting) Fingerprint() string {
	if f, ok := o.Dataset.(Fingerprinter); ok {
		return f.Fingerprint()
	}
	return ""
}
