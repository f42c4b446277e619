package dataloader

// The memory of a slot: one page-locked block for the rows of all fields, the tensors over it that a loop's
// body gets, and its copy on a device, in parts: so a batch of any number of fields is one copy.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
)

// shrinkAfter is how many batches in a row must have left half of a slot unused for it to get smaller: so
// one huge batch of a BatchSampler does not hold memory for ever, and sizes that vary cost nothing.
const shrinkAfter = 64

// reserve makes room for n rows, of at least the usual size of a batch, and lays them out.
func (s *slot) reserve(n int) error {
	n = max(n, s.l.rows)
	s.largest = max(s.largest, n)
	shrink := false
	if s.fillings++; s.fillings == shrinkAfter {
		shrink = s.capacity > 2*s.largest
		s.fillings, s.largest = 0, n
	}
	if n > s.capacity || shrink || s.block != nil && pintensor.InUse(s.block) { // by copies that the loop's body has made
		if err := s.grow(max(n, s.largest)); err != nil {
			return err
		}
	}
	s.layOut(n)
	s.fitRagged(n)
	return nil
}

// grow gives the slot's memory back, and takes memory for n rows.
func (s *slot) grow(n int) error {
	if errs := s.free(); len(errs) > 0 || n == 0 {
		return errors.Join(errs...)
	}
	size, ok := s.layout.blockBytes(n)
	if !ok {
		return fmt.Errorf("%d rows take more than %d bytes", n, maxInt)
	}
	d, err := s.l.engine.Empty(tensor.Uint8, size)
	if errors.Is(err, pintensor.ErrLimit) {
		return fmt.Errorf("%w; this loader has up to %d batches of %d bytes in memory: a smaller Config.BatchSize or Config.Prefetch needs less",
			err, s.l.most(), n*s.layout.total)
	}
	if err != nil {
		return err
	}
	s.block, s.capacity = d, n
	s.count(1)
	return nil
}

// layOut places the fields of n rows in the block.
func (s *slot) layOut(n int) {
	if s.rows == n {
		return
	}
	s.rows = n
	s.mem = slices.Grow(s.mem[:0], len(s.rowBytes))
	at := 0
	for _, size := range s.rowBytes {
		s.mem = append(s.mem, s.block.Raw[at:at+n*size:at+n*size])
		at += aligned(n * size)
	}
}

// count adds the slot to, or takes it from, what the Loader says that it holds.
func (s *slot) count(sign int64) {
	if s.capacity > 0 {
		s.l.slots.Add(sign)
		s.l.pinnedBytes.Add(sign * int64(len(s.block.Raw)+s.wideBytes))
	}
}

// free gives the memory back. The engine waits for copies in flight before it uses it again.
func (s *slot) free() (errs []error) {
	for i := range s.views {
		errs = append(errs, s.views[i].drop()...)
	}
	errs = append(errs, releaseTensor(s.onDevice))
	for i := range s.wides {
		errs = append(errs, s.releaseWide(&s.wides[i]))
	}
	if s.block != nil {
		if err := s.l.engine.Release(s.block); err != nil {
			errs = append(errs, fmt.Errorf("dataloader: memory of a batch: %w", err))
		}
	}
	s.count(-1)
	s.block, s.onDevice, s.mem, s.rows, s.copies, s.capacity, s.view = nil, nil, nil, 0, nil, 0, nil
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// drop releases the view's device tensors.
func (v *view) drop() (errs []error) {
	for _, x := range append(v.device, v.copied) {
		if err := releaseTensor(x); err != nil {
			errs = append(errs, err)
		}
	}
	*v = view{}
	return errs
}

// releaseTensor releases x, unless it is gone: a closed device has released its memory, and a loop's body may have
// released a tensor.
func releaseTensor(x *asynccopy.Tensor) error {
	if x == nil {
		return nil
	}
	if err := x.Release(); err != nil && !errors.Is(err, asynccopy.ErrClosed) && !errors.Is(err, asynccopy.ErrReleased) {
		return fmt.Errorf("dataloader: device memory: %w", err)
	}
	return nil
}

// settle waits until nothing reads the slot's host memory any more, so that it may be written. A copy that
// failed is over as well: unless the device is lost, its error is no reason to do without the next batch, and
// comes back from Close.
func (s *slot) settle(ctx context.Context) error {
	// The engine asks the driver about a stream now and then, whoever wants to know. Workers that each ask about their own
	// copy all the time keep the driver from issuing the next ones.
	for i := 1; i <= 1024 && pintensor.InUse(s.block); i++ {
		if i%128 == 0 {
			runtime.Gosched()
		}
	}
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
	if n != s.rows {
		v = &s.views[1]
	}
	if v.n != n || v.rows != s.rows {
		if errs := v.drop(); len(errs) > 0 {
			return nil, errors.Join(errs...)
		}
		*v = view{n: n, rows: s.rows, host: make([]*tensor.Dense, len(s.layout.fields))}
	}
	for i := range v.host {
		if s.layout.wide[i] != nil {
			v.host[i] = s.wideHeader(i)
		} else if !s.intact(v.host[i], i, n) {
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

// prepareDevice makes the view's tensors on the device, where they are not there yet or the loop's body has released
// them.
func (s *slot) prepareDevice(v *view) (err error) {
	if s.onDevice == nil {
		if s.onDevice, err = s.l.cfg.Stream.Empty(tensor.Uint8, s.block.Shape()...); err != nil {
			return err
		}
	}
	if v.copied == nil { // all bytes up to the last row's
		last := len(s.mem) - 1
		end := int(uintptr(unsafe.Pointer(&s.mem[last][0]))-uintptr(unsafe.Pointer(&s.block.Raw[0]))) + v.n*s.rowBytes[last]
		v.raw = tensor.New(tensor.WithShape(end), tensor.WithBacking(s.block.Raw[:end:end]))
		if v.copied, err = s.onDevice.Part(0, tensor.Uint8, end); err != nil {
			return err
		}
	}
	at := 0
	for i, size := range s.rowBytes {
		switch {
		case s.layout.wide[i] != nil: // it has device memory of its own
			if len(v.device) == i {
				v.device = append(v.device, nil)
			}
		case len(v.device) == i:
			v.device = append(v.device, nil)
			fallthrough
		case v.device[i] == nil, v.device[i].DevicePtr() == 0:
			if v.device[i], err = s.onDevice.Part(int64(at), s.layout.fields[i].Dtype, s.batchShape(i, v.n)...); err != nil {
				return err
			}
		}
		at += aligned(s.rows * size)
	}
	return nil
}
