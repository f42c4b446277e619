package dataloader

// A data set of tensors in memory.

import (
	"context"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/gather"
	"github.com/pintensor/pin/internal/strided"
)

// tensorDataset copies rows out of tensors.
type tensorDataset struct {
	n      int
	fields []Field
	size   []int    // of a row in bytes, by field
	data   [][]byte // row-major
	gather []gather.Rows
}

// FromTensors returns a Dataset whose sample i is row i of each tensor: their first axis is the samples,
// and must be of one length. Field j is named "tensor j" and has the tensor's dtype and the rest of its
// shape.
//
// Views, transposed and column-major tensors are copied once, here. Others are read where they are, and
// must not be changed, nor released to their engine, before the Loader's Close, or with [Config.SingleEpoch] while
// a loop runs. Batches are copies: changing one does not change the tensors.
//
// No tensors at all, and one that is nil, was released, is a scalar, has a mask, or differs in its number of samples, are errors
// that name the tensor.
func FromTensors(ts ...*tensor.Dense) (Dataset, error) {
	if len(ts) == 0 {
		return nil, fmt.Errorf("dataloader: FromTensors: no tensors: want at least one")
	}
	d := &tensorDataset{gather: make([]gather.Rows, len(ts))}
	for i, t := range ts {
		if err := d.add(i, t); err != nil {
			return nil, fmt.Errorf("dataloader: FromTensors: tensor %d: %w", i, err)
		}
	}
	return d, nil
}

func (d *tensorDataset) add(i int, t *tensor.Dense) error {
	if t == nil {
		return fmt.Errorf("is nil: want a tensor")
	}
	shape := t.Shape().Clone()
	switch {
	case len(shape) == 0:
		return fmt.Errorf("is a scalar: want at least one axis, the samples")
	case !t.IsNativelyAccessible():
		return fmt.Errorf("its memory was released, or is not in the host's reach: want one that has its memory on the host")
	case t.IsMasked() && shape.TotalSize() > 0:
		return fmt.Errorf("has a mask: want one without, as batches have none")
	case i > 0 && shape[0] != d.n:
		return fmt.Errorf("shape %v: want %d samples, as in tensor 0", shape, d.n)
	}
	f := Field{Name: fmt.Sprintf("tensor %d", i), Dtype: t.Dtype(), Shape: shape[1:]}
	size, err := f.bytes()
	if err != nil {
		return err
	}
	data, err := rowMajor(t, shape.TotalSize())
	if err != nil {
		return err
	}
	d.n = shape[0]
	d.fields, d.size, d.data = append(d.fields, f), append(d.size, size), append(d.data, data)
	return nil
}

// rowMajor returns the elements of t in row-major order: its own memory where that is how they lie.
func rowMajor(t *tensor.Dense, elements int) ([]byte, error) {
	n := elements * int(t.Dtype().Size())
	if n == 0 {
		return nil, nil
	}
	layout, err := strided.Of(t)
	if err != nil {
		return nil, err
	}
	if layout.Contiguous() {
		return t.Raw[:n:n], nil
	}
	data := make([]byte, n)
	layout.Gather(data, 0)
	return data, nil
}

func (d *tensorDataset) Len() int        { return d.n }
func (d *tensorDataset) Fields() []Field { return d.fields }
func (d *tensorDataset) String() string  { return fmt.Sprintf("FromTensors(%d)", d.n) }

func (d *tensorDataset) Read(_ context.Context, i int, row Row) error {
	if err := checkIndex("FromTensors", i, d.n); err != nil {
		return err
	}
	for f, size := range d.size {
		copy(row.Bytes(f), d.data[f][i*size:(i+1)*size])
	}
	return nil
}

func (d *tensorDataset) ReadBatch(_ context.Context, indices []int, rows Rows) error {
	for _, i := range indices {
		if uint(i) >= uint(d.n) {
			return checkIndex("FromTensors", i, d.n)
		}
	}
	for f, size := range d.size {
		if rows.b.nonTemporal {
			d.gather[f].CopyNonTemporal(rows.Bytes(f), d.data[f], indices, size)
		} else {
			d.gather[f].Copy(rows.Bytes(f), d.data[f], indices, size)
		}
	}
	return nil
}
