package dataloader

// The memory of a slot: page-locked rows, the tensors over them that a loop's body gets, and their copies
// on a device.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
)

// shrinkAfter is how many batches in a row must have left half of a slot unused for it to get smaller: so
// one huge batch of a BatchSampler does not hold memory for ever, and sizes that vary cost nothing.
const shrinkAfter = 64

// reserve makes room for n rows, of at least the usual size of a batch.
func (s *slot) reserve(n int) error {
	n = max(n, s.l.rows)
	s.largest = max(s.largest, n)
	shrink := false
	if s.fillings++; s.fillings == shrinkAfter {
		if shrink = s.capacity > 2*s.largest; shrink {
			n = s.largest
		}
		s.fillings, s.largest = 0, 0
	}
	if n <= s.capacity && !shrink {
		return nil
	}
	if errs := s.free(); len(errs) > 0 || n == 0 {
		return errors.Join(errs...)
	}
	for i := range s.layout.fields {
		if n > maxInt/s.rowBytes[i] {
			return fmt.Errorf("field %s: %d rows take more than %d bytes", s.layout.fields[i].describe(), n, maxInt)
		}
		d, err := s.l.engine.New(s.layout.fields[i].Dtype, s.batchShape(i, n)...)
		if err != nil {
			err = fmt.Errorf("field %s: %w", s.layout.fields[i].describe(), err)
			if errors.Is(err, pintensor.ErrLimit) {
				err = fmt.Errorf("%w; this loader has up to %d batches of %d bytes in memory: a smaller Config.BatchSize or Config.Prefetch needs less",
					err, s.l.tokens, n*s.layout.total)
			}
			return errors.Join(append(s.free(), err)...)
		}
		size := n * s.rowBytes[i]
		s.pinned = append(s.pinned, d)
		s.mem = append(s.mem, d.Raw[:size:size])
	}
	s.capacity = n
	s.count(1)
	return nil
}

// count adds the slot to, or takes it from, what the Loader says that it holds.
func (s *slot) count(sign int64) {
	if s.capacity > 0 {
		s.l.slots.Add(sign)
		s.l.pinnedBytes.Add(sign * int64(s.capacity) * int64(s.layout.total))
	}
}

// free gives the memory back. The engine waits for copies in flight before it uses it again.
func (s *slot) free() (errs []error) {
	for i := range s.views {
		errs = append(errs, s.views[i].drop()...)
	}
	for i, d := range s.pinned {
		if err := s.l.engine.Release(d); err != nil {
			errs = append(errs, fmt.Errorf("dataloader: memory of field %s: %w", s.layout.fields[i].describe(), err))
		}
	}
	s.count(-1)
	s.pinned, s.mem, s.copies, s.capacity, s.view = nil, nil, nil, 0, nil
	return errs
}

// drop releases the view's device tensors.
func (v *view) drop() (errs []error) {
	for _, x := range v.device {
		// A closed device has released its memory; a loop's body may have released a tensor.
		if err := x.Release(); err != nil && !errors.Is(err, asynccopy.ErrClosed) && !errors.Is(err, asynccopy.ErrReleased) {
			errs = append(errs, fmt.Errorf("dataloader: device memory: %w", err))
		}
	}
	*v = view{}
	return errs
}

// settle waits until nothing reads the slot's host memory any more, so that it may be written. A copy that
// failed is over as well: unless the device is lost, its error is no reason to do without the next batch, and
// comes back from Close.
func (s *slot) settle(ctx context.Context) error {
	for i, e := range s.copies {
		err := e.Wait(ctx)
		if err == nil {
			continue
		}
		var failed *asynccopy.DriverError
		done, result := e.Done()
		switch {
		case !done, errors.As(result, &failed) && failed.Sticky():
			s.copies = slices.Delete(s.copies, 0, i)
			return fmt.Errorf("copy of an earlier batch to the device: %w", err)
		case result != nil:
			s.l.note(fmt.Errorf("dataloader: copy of a batch to the device: %w", result))
		}
	}
	s.copies = s.copies[:0]
	return nil
}

// look returns the view of n rows, from the cache where it can.
func (s *slot) look(n int) (*view, error) {
	v := &s.views[0]
	if n != s.capacity {
		v = &s.views[1]
	}
	if v.n != n {
		if errs := v.drop(); len(errs) > 0 {
			return nil, errors.Join(errs...)
		}
		*v = view{n: n, host: make([]*tensor.Dense, len(s.layout.fields))}
	}
	for i := range v.host {
		if !s.intact(v.host[i], i, n) {
			v.host[i] = s.header(i, n)
		}
	}
	return v, nil
}

// header makes a tensor over the first n rows of a field. It is an ordinary one with tensor's standard
// engine, and not the engine's own Dense, which releases the memory and may be changed by a loop's
// body (its Reshape and T change it in place).
func (s *slot) header(field, n int) *tensor.Dense {
	f := s.layout.fields[field]
	elements := n * s.rowBytes[field] / int(f.Dtype.Size())
	backing := reflect.SliceAt(f.Dtype.Type, unsafe.Pointer(&s.mem[field][0]), elements).Interface()
	return tensor.New(tensor.WithShape(s.batchShape(field, n)...), tensor.WithBacking(backing))
}

// intact reports whether d is still as header made it: the loop's body has had it.
func (s *slot) intact(d *tensor.Dense, field, n int) bool {
	if d == nil || unsafe.SliceData(d.Raw) != unsafe.SliceData(s.mem[field]) || len(d.Raw) != n*s.rowBytes[field] {
		return false
	}
	shape, sample := d.Shape(), s.layout.fields[field].Shape
	if len(shape) != len(sample)+1 || shape[0] != n || !slices.Equal(shape[1:], sample) {
		return false
	}
	step := 1
	for i, stride := range slices.Backward(d.Strides()) {
		if stride != step {
			return false
		}
		step *= shape[i]
	}
	_, standard := d.Engine().(tensor.StdEng)
	return standard && d.DataOrder() == 0 && !d.IsMasked()
}

// send starts the copies of the view to the device.
func (s *slot) send(v *view) error {
	stream := s.l.cfg.Stream
	for i, d := range v.host {
		if len(v.device) <= i {
			x, err := stream.Empty(s.layout.fields[i].Dtype, s.batchShape(i, v.n)...)
			if err != nil {
				return s.copyError(i, err)
			}
			v.device = append(v.device, x)
		}
		err := stream.ToDeviceInto(v.device[i], d, true)
		if errors.Is(err, asynccopy.ErrReleased) { // the loop's body released it
			if v.device[i], err = stream.Empty(s.layout.fields[i].Dtype, s.batchShape(i, v.n)...); err == nil {
				err = stream.ToDeviceInto(v.device[i], d, true)
			}
		}
		if err != nil {
			return s.copyError(i, err)
		}
		s.copies = append(s.copies, v.device[i].Ready())
	}
	return nil
}

func (s *slot) copyError(field int, err error) error {
	return fmt.Errorf("field %s: copy to the device: %w", s.layout.fields[field].describe(), err)
}
