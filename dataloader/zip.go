package dataloader

// Sets side by side.

import (
	"context"
	"fmt"
	"sync"
)

// Zip returns the set whose sample i is sample i of each of the sets, side by side: the fields of the first, then
// those of the second, and so on. It is PyTorch's StackDataset. The sets must have one length, and no two
// fields of one name: see [Rename]. A [Row.Rand] is the sample's: what one set draws from it the next does not.
func Zip(sets ...Dataset) (Dataset, error) {
	parts, err := newParts("Zip", sets)
	if err != nil {
		return nil, err
	}
	z := &zipped{several: several{parts, "Zip"}}
	owner := make(map[string]string)
	for j := range parts {
		p := &parts[j]
		if p.n != parts[0].n {
			return nil, fmt.Errorf("dataloader: %s has %d samples: want %d, as set 0 has", p.name, p.n, parts[0].n)
		}
		for f, field := range p.layout.fields {
			where := fmt.Sprintf("field %d of set %d", f, j)
			if other, ok := owner[field.Name]; ok && field.Name != "" {
				return nil, fmt.Errorf("dataloader: Zip: %s and %s are both named %q: want unique names (Rename gives others)", other, where, field.Name)
			}
			owner[field.Name] = where
			z.fields = append(z.fields, field)
		}
	}
	if _, err := newLayout(z.fields); err != nil {
		return nil, within("Zip", err)
	}
	z.pools = make([]sync.Pool, len(parts))
	return z, nil
}

type zipped struct {
	several
	fields []Field
	pools  []sync.Pool // of shadows, by part
}

func (z *zipped) Len() int        { return z.parts[0].n }
func (z *zipped) Fields() []Field { return z.fields }

func (z *zipped) Read(ctx context.Context, i int, row Row) error {
	if err := checkIndex("Zip", i, z.Len()); err != nil {
		return err
	}
	return z.each(Rows{row.b, row.k, 1}, func(p *part, rows Rows) error { return p.read(ctx, i, rows.Row(0)) })
}

func (z *zipped) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	for _, i := range indices {
		if err := checkIndex("Zip", i, z.Len()); err != nil {
			return err
		}
	}
	return z.each(rows, func(p *part, rows Rows) error { return p.readRows(ctx, indices, rows) })
}

// each has read write each part's fields of rows.
func (z *zipped) each(rows Rows, read func(p *part, rows Rows) error) error {
	first := 0
	for j := range z.parts {
		p := &z.parts[j]
		own := shadow(p.layout, &z.pools[j], rows)
		own.nonTemporal = rows.b.nonTemporal
		for f := range p.layout.fields {
			own.mem[f] = rows.fixed(first + f)
			if p.layout.wide[f] != nil {
				own.share(f, rows, first+f)
			}
		}
		err := read(p, Rows{own, 0, rows.n})
		clear(own.mem)
		clear(own.ragged) // the pool must not keep a batch's memory from the collector
		own.restore(&z.pools[j])
		if err != nil {
			return err
		}
		first += len(p.layout.fields)
	}
	return nil
}

// Rename returns ds with other names for its fields, one for each: such as those of [FromTensors], for [Zip] or for
// error texts. Names must be unique, unless empty.
func Rename(ds Dataset, names ...string) (Dataset, error) {
	p, err := newPart("Rename: set", ds)
	if err != nil {
		return nil, err
	}
	if len(names) != len(p.layout.fields) {
		return nil, fmt.Errorf("dataloader: Rename: %d names: want %d, one for each field", len(names), len(p.layout.fields))
	}
	r := &renamed{part: p, fields: make([]Field, len(names))}
	for f, name := range names {
		r.fields[f] = p.layout.fields[f]
		r.fields[f].Name = name
	}
	if _, err := newLayout(r.fields); err != nil {
		return nil, within("Rename", err)
	}
	return r, nil
}

type renamed struct {
	part
	fields []Field
}

func (r *renamed) Fields() []Field { return r.fields }
func (r *renamed) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	return r.readRows(ctx, indices, rows)
}
func (r *renamed) batches() bool    { return r.reader != nil }
func (r *renamed) overwrites() bool { return r.whole }
func (r *renamed) String() string   { return describeSet(r.Dataset) }
