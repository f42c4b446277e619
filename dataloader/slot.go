package dataloader

// Slots: the memory of batches. A slot is filled by workers, held by the loop for one turn, and filled
// again.
//
// A slot has an owner at any time: the workers filling it (active > 0), the loop (held), the channel of
// free slots, or the Loader's pool. When a run is over its slots are marked dead, and whoever lets go of
// a dead one last puts it into the pool: so a slot that a stuck reader may still write to is not used
// again before that reader has returned, and is not lost when it does.

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/asynccopy"
)

type slot struct {
	buffer
	l        *Loader
	capacity int             // rows that there is memory for
	pinned   []*tensor.Dense // lent by the engine, by field; never handed out
	views    [2]view         // of all rows, and of the last other number of rows
	copies   []*asynccopy.Event

	mu      sync.Mutex // guards the rest while workers fill the slot
	run     *run       // that it belongs to, nil in the pool
	active  int        // workers in it
	pending int        // parts not yet filled
	held    bool       // by the loop
	dead    bool       // the run is over
	faults  []fault

	// What one filling made, written before it is delivered.
	place   int // in the run's order
	number  int // of the batch in the epoch
	view    *view
	skipped []*SampleError
	err     error
	panic   *PanicError
}

// view is the tensors of a batch of n rows, in the slot's memory.
type view struct {
	n      int
	host   []*tensor.Dense
	device []*asynccopy.Tensor
}

// fault is something that went wrong at a row of a batch.
type fault struct {
	row   int
	err   *SampleError
	panic *PanicError
	skip  bool // a sample's own error, that SkipErrors is about
}

// open makes the slot ready to be filled with batch number, as the place-th of r, with the caller as its
// first worker. It returns false if the slot isn't r's any more.
func (s *slot) open(r *run, place, number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != r || s.dead {
		return false
	}
	s.active, s.pending, s.held = 1, 1, false
	s.faults = s.faults[:0]
	s.place, s.number = place, number
	s.view, s.skipped, s.err, s.panic = nil, nil, nil, nil
	s.epoch = r.epoch
	s.indices = s.indices[:0]
	s.turn++
	return true
}

// enter adds a worker, and returns false if the filling that it is for is over.
func (s *slot) enter(turn uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead || s.turn != turn {
		return false
	}
	s.active++
	return true
}

// filled reports that a part is, and whether it was the last.
func (s *slot) filled() (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending--
	return s.pending == 0
}

// leave takes the worker away that open or enter added. alive: the run goes on. It puts a dead slot that
// nobody uses any more into the pool.
func (s *slot) leave() (alive bool) {
	s.mu.Lock()
	s.active--
	alive = !s.dead
	put := s.dead && s.active == 0 && !s.held
	s.mu.Unlock()
	if put {
		s.l.put(s)
	}
	return alive
}

// hold gives the slot to the loop, and returns false if it isn't r's any more.
func (s *slot) hold(r *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = s.run == r && !s.dead
	return s.held
}

// letGo takes the slot from the loop. It returns false if the run is over, and the slot in the pool.
func (s *slot) letGo() (alive bool, err error) {
	s.mu.Lock()
	s.held = false
	alive = !s.dead
	s.mu.Unlock()
	if !alive {
		err = s.l.put(s)
	}
	return alive, err
}

// kill marks the slot of a run that is over.
func (s *slot) kill() {
	s.mu.Lock()
	put := !s.dead && s.active == 0 && !s.held
	s.dead = true
	s.mu.Unlock()
	if put {
		s.l.put(s)
	}
}

// fault notes what went wrong. Which fault a batch reports does not depend on the order of calls.
func (s *slot) fault(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// reserve makes room for n rows, of at least the usual size of a batch.
func (s *slot) reserve(n int) error {
	if n <= s.capacity {
		return nil
	}
	n = max(n, s.l.rows)
	if errs := s.free(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	for i := range s.layout.fields {
		if n > maxInt/s.rowBytes[i] {
			return fmt.Errorf("field %s: %d rows take more than %d bytes", s.layout.fields[i].describe(), n, maxInt)
		}
		d, err := s.l.engine.New(s.layout.fields[i].Dtype, s.batchShape(i, n)...)
		if err != nil {
			return errors.Join(append(s.free(), fmt.Errorf("field %s: %w", s.layout.fields[i].describe(), err))...)
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

// settle waits until nothing reads the slot's host memory any more, so that it may be written.
func (s *slot) settle(ctx context.Context) error {
	for _, e := range s.copies {
		if err := e.Wait(ctx); err != nil {
			return fmt.Errorf("copy of an earlier batch to the device: %w", err)
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
