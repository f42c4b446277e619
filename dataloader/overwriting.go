package dataloader

// Saying of a set that it writes whole rows.

import "context"

// Overwriting returns ds, and says of it what [Overwriter] is about: that its Read, and ReadBatch if there is one, write
// every byte of every row. It is for sets that can't say so themselves, those of [FromFunc] and [Map]. What they find in
// their rows is not zero then, and to zero large rows takes up to a third as long as to read them.
//
// The first calls have to prove it, as Overwriter says.
func Overwriting(ds Dataset) (Dataset, error) {
	p, err := newPart("Overwriting: set", ds)
	if err != nil {
		return nil, err
	}
	switch ds := ds.(type) {
	case *funcDataset:
		return &funcDataset{ds.n, ds.fields, ds.read, true}, nil
	case *mapped:
		return &mapped{part: ds.part, fields: ds.fields, fn: ds.fn, fills: true}, nil
	}
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
func (o *overwriting) String() string   { return describeSet(o.Dataset) }

// Fingerprint is that of the set itself.
func (o *overwriting) Fingerprint() string {
	if f, ok := o.Dataset.(Fingerprinter); ok {
		return f.Fingerprint()
	}
	return ""
}
