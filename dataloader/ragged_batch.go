package dataloader

// The tensors of ragged fields: of the size that a batch needs, taken when its samples are there.

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
)

// wideTensor is the memory of a ragged field's batch.
type wideTensor struct {
	block  *tensor.Dense     // lent by the engine; never handed out
	shape  tensor.Shape      // of the batch
	device *asynccopy.Tensor // its copy
}

// rowMemory is how much memory rows of ragged fields have had, for giving it back.
type rowMemory struct{ batches, most int }

// pad puts n rows of each ragged field into one tensor.
func (s *slot) pad(n int) error {
	used := 0
	for i, w := range s.layout.wide {
		if w == nil {
			continue
		}
		if s.wides == nil {
			s.wides = make([]wideTensor, len(s.layout.fields))
		}
		shape, err := s.commonShape(i, n)
		if err != nil {
			return err
		}
		bytes, err := s.room(i, shape)
		if err != nil {
			return err
		}
		size := bytes / n
		for k := range n {
			own := Row{&s.buffer, k}
			padTo(s.wides[i].block.Raw[k*size:(k+1)*size], shape[1:], s.ragged[i][k], own.shape(i), w)
			used += len(s.ragged[i][k])
		}
	}
	s.shrinkRows(used)
	return nil
}

// commonShape returns the shape of a field's batch.
func (s *slot) commonShape(field, n int) (tensor.Shape, error) {
	w, f := s.layout.wide[field], &s.layout.fields[field]
	shape := append(tensor.Shape{n}, Row{&s.buffer, 0}.shape(field)...)
	for k := 1; k < n; k++ {
		own := Row{&s.buffer, k}.shape(field)
		for d := range own {
			if own[d] != shape[d+1] && !w.pads {
				return nil, s.sampleError(k, "field %d, %s: shape %v: want %v, which sample %d of the batch has: samples of different shapes need Field.Pad",
					field, f.describe(), tensor.Shape(own), shape[1:], s.indices[0])
			}
			shape[d+1] = max(shape[d+1], own[d])
		}
	}
	bytes := n * w.element
	for d := range shape[1:] {
		size := &shape[d+1]
		if *size == 0 && !w.pads {
			return nil, s.sampleError(0, "field %d, %s: shape %v: want every dimension > 0 without Field.Pad", field, f.describe(), shape[1:])
		}
		if f.Shape[d] < 0 && *size <= maxInt-w.multiple {
			*size = (max(*size, 1) + w.multiple - 1) / w.multiple * w.multiple
		}
		if bytes > maxInt/2 / *size {
			return nil, fmt.Errorf("field %d, %s: padded to %v it takes more than %d bytes", field, f.describe(), shape, maxInt/2)
		}
		bytes *= *size
	}
	return shape, nil
}

// asSampleError is an error about a sample as it is, any other as one of the batch.
func (s *slot) asSampleError(err error) error {
	var own *SampleError
	if errors.As(err, &own) {
		return own
	}
	return &SampleError{s.epoch, s.number, -1, err}
}

func (s *slot) sampleError(row int, format string, args ...any) error {
	return &SampleError{s.epoch, s.number, s.indices[row], fmt.Errorf(format, args...)}
}

// room makes room for a field's batch, neither too small nor much too large: one huge batch does not hold memory for
// ever. Copies of the batch before are over, but for those that the loop's body may have made.
func (s *slot) room(field int, shape tensor.Shape) (bytes int, err error) {
	t := &s.wides[field]
	bytes = shape.TotalSize() * s.layout.wide[field].element
	t.shape = shape
	if t.block != nil && len(t.block.Raw) >= bytes && len(t.block.Raw) <= max(4*bytes, smallestBlock) && !pintensor.InUse(t.block) {
		return bytes, nil
	}
	if err := s.releaseWide(t); err != nil {
		return 0, err
	}
	if t.block, err = s.l.engine.Empty(tensor.Uint8, bytes); err != nil {
		t.block = nil
		return 0, fmt.Errorf("field %d, %s: memory for a batch of shape %v: %w", field, s.layout.fields[field].describe(), shape, err)
	}
	s.wideBytes += bytes
	s.l.pinnedBytes.Add(int64(bytes))
	return bytes, nil
}

// releaseWide gives the memory of a ragged field's batch back.
func (s *slot) releaseWide(t *wideTensor) error {
	err := releaseTensor(t.device)
	t.device = nil
	if t.block == nil {
		return err
	}
	n := len(t.block.Raw)
	s.wideBytes -= n
	s.l.pinnedBytes.Add(-int64(n))
	block := t.block
	t.block = nil
	if failed := s.l.engine.Release(block); failed != nil && err == nil {
		err = fmt.Errorf("dataloader: memory of a batch: %w", failed)
	}
	return err
}

// shrinkRows gives the memory of rows back, of which this batch used so many bytes, if many batches in a row used less
// than half of it.
func (s *slot) shrinkRows(used int) {
	m := &s.rowMemory
	m.most = max(m.most, used)
	if m.batches++; m.batches < shrinkAfter {
		return
	}
	held := 0
	for _, rows := range s.ragged {
		for _, row := range rows {
			held += cap(row)
		}
	}
	if held > 2*m.most {
		for _, rows := range s.ragged {
			clear(rows)
		}
	}
	*m = rowMemory{}
}

// padTo writes a sample of the given shape into dst, of shape full.
func padTo(dst []byte, full []int, src []byte, shape []int, w *wide) {
	if len(full) == 0 || slices.Equal(full, shape) {
		copy(dst, src)
		return
	}
	into, from := len(dst)/full[0], 0
	if shape[0] > 0 {
		from = len(src) / shape[0]
	}
	for i := range shape[0] {
		padTo(dst[i*into:(i+1)*into], full[1:], src[i*from:(i+1)*from], shape[1:], w)
	}
	w.fillIn(dst[shape[0]*into:])
}

// fillIn fills memory with the padding's element.
func (w *wide) fillIn(dst []byte) {
	if w.fill == nil {
		clear(dst)
		return
	}
	for n := copy(dst, w.fill); n > 0 && n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// wideHeader makes a tensor over a ragged field's batch, as header does.
func (s *slot) wideHeader(field int) *tensor.Dense {
	t, f := &s.wides[field], &s.layout.fields[field]
	backing := reflect.SliceAt(f.Dtype.Type, unsafe.Pointer(&t.block.Raw[0]), t.shape.TotalSize()).Interface()
	return tensor.New(tensor.WithShape(t.shape...), tensor.WithBacking(backing))
}

// sendWide starts the copies of ragged fields to the device.
func (s *slot) sendWide(v *view) error {
	for i, w := range s.layout.wide {
		if w == nil {
			continue
		}
		t := &s.wides[i]
		if err := releaseTensor(t.device); err != nil {
			return err
		}
		x, err := s.l.cfg.Stream.Empty(s.layout.fields[i].Dtype, t.shape...)
		if err != nil {
			return fmt.Errorf("field %d, %s: %w", i, s.layout.fields[i].describe(), err)
		}
		t.device, v.device[i] = x, x
		if err := s.l.cfg.Stream.ToDeviceInto(x, v.host[i], true); err != nil {
			return fmt.Errorf("field %d, %s: %w", i, s.layout.fields[i].describe(), err)
		}
		s.copies = append(s.copies, x.Ready())
	}
	return nil
}
