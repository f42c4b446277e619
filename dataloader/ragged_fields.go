package dataloader

// Fields that say how much of a padded one is real.

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"
)

// WithLengths returns ds with one more field, named as the given one and ".length", that has the sample's number of
// elements in the field's dimension before padding: an Int64 scalar; of a field of several dimensions its whole
// shape. The field must have dimensions of -1.
func WithLengths(ds Dataset, field string) (Dataset, error) {
	a, err := newAnnotated("WithLengths", ds, field)
	if err != nil {
		return nil, err
	}
	f := Field{Name: field + ".length", Dtype: tensor.Int64}
	if n := len(a.layout.fields[a.of].Shape); n > 1 {
		f.Shape = tensor.Shape{n}
	}
	a.write = func(row Row, own int) error {
		lengths := Values[int64](row, own)
		for i, n := range row.shape(a.of) {
			lengths[i] = int64(n)
		}
		return nil
	}
	return a.add(f)
}

// WithMask returns ds with one more field, named as the given one and ".mask", of the same shape, which is one (or true)
// where the sample has an element and zero (or false) where the batch is padded. dt must be Bool or a number type.
// The field must have dimensions of -1.
func WithMask(ds Dataset, field string, dt tensor.Dtype) (Dataset, error) {
	a, err := newAnnotated("WithMask", ds, field)
	if err != nil {
		return nil, err
	}
	one, ok := oneOf(dt)
	if !ok {
		return nil, fmt.Errorf("dataloader: WithMask: dt = %v: want Bool or a number type", dt.Type)
	}
	of := a.layout.fields[a.of]
	f := Field{Name: field + ".mask", Dtype: dt, Shape: of.Shape}
	if of.Pad != nil {
		f.Pad = &Padding{Multiple: of.Pad.Multiple}
	}
	ones := wide{fill: one}
	a.write = func(row Row, own int) error {
		mask, err := row.reshape(own, row.shape(a.of))
		ones.fillIn(mask)
		return err
	}
	return a.add(f)
}

// oneOf returns the bytes of a one.
func oneOf(dt tensor.Dtype) ([]byte, bool) {
	if dt.Type == nil {
		return nil, false
	}
	v := reflect.New(dt.Type)
	switch e := v.Elem(); {
	case e.Kind() == reflect.Bool:
		e.SetBool(true)
	case e.CanInt():
		e.SetInt(1)
	case e.CanUint() && e.Kind() != reflect.Uintptr:
		e.SetUint(1)
	case e.CanFloat():
		e.SetFloat(1)
	default:
		return nil, false
	}
	return slices.Clone(unsafe.Slice((*byte)(v.UnsafePointer()), dt.Size())), true
}

// annotated is a set with a field more, made of another.
type annotated struct {
	part
	call   string
	of     int // the field that it is about
	fields []Field
	write  func(row Row, own int) error
}

func newAnnotated(call string, ds Dataset, field string) (*annotated, error) {
	p, err := newPart(call+": set", ds)
	if err != nil {
		return nil, err
	}
	of := slices.IndexFunc(p.layout.fields, func(f Field) bool { return f.Name == field })
	switch {
	case of < 0:
		return nil, fmt.Errorf("dataloader: %s: field = %q: want one of %v", call, field, p.layout.describe())
	case p.layout.wide[of] == nil:
		return nil, fmt.Errorf("dataloader: %s: field = %q, %s: want one with dimensions of -1", call, field, p.layout.fields[of].describe())
	}
	return &annotated{part: p, call: call, of: of}, nil
}

func (a *annotated) add(f Field) (Dataset, error) {
	a.fields = append(slices.Clone(a.layout.fields), f)
	if _, err := newLayout(a.fields); err != nil {
		return nil, within(a.call, err)
	}
	return a, nil
}

func (a *annotated) Fields() []Field { return a.fields }

// Read has the part write to the row itself: its fields are the row's first.
func (a *annotated) Read(ctx context.Context, i int, row Row) error {
	if err := a.read(ctx, i, row); err != nil {
		return err
	}
	return a.write(row, len(a.fields)-1)
}

func (a *annotated) ReadBatch(ctx context.Context, indices []int, rows Rows) error {
	if err := a.readRows(ctx, indices, rows); err != nil {
		return err
	}
	for k := range indices {
		if err := a.write(rows.Row(k), len(a.fields)-1); err != nil {
			return err
		}
	}
	return nil
}

func (a *annotated) batches() bool  { return a.reader != nil }
func (a *annotated) String() string { return a.call + "(" + describeSet(a.Dataset) + ")" }
