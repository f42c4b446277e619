package asynccopy

// This file has Tensor: device memory with a shape and a dtype, as a value of Gorgonia.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/dtype"
	"gorgonia.org/tensor"
)

// Tensor is a contiguous row-major array in the memory of a device. It implements gorgonia.Value, so that it
// can be bound to a node, but its elements can't be reached from the host: copy it with [Stream.ToHost].
//
// A Tensor belongs to its caller, who calls Release. One that is dropped instead is freed some time after the
// collector has found it, and counted in Stats. Of those of up to 64 KiB the collector finds the last 64 only when others
// were made, or when Stats or Trim is called.
//
// Any stream may use a Tensor; this package makes streams wait for each other where one writes what the
// other reads or writes, in the order of the calls. Two calls at the same time on different streams, one of
// them writing, are in no order: what is read or left may be of both, as with any memory.
//
// [Tensor.Part] gives a part of the memory as a Tensor of its own.
type Tensor struct {
	buf   *buffer
	whole *Tensor // of which x is a part, nil if of none
	ptr   driver.DevicePtr
	size  int64 // in bytes
	dtype tensor.Dtype
	rank  int
	dims  [4]int       // the shape, if it is that short: so a Tensor is one allocation
	long  tensor.Shape // the shape otherwise. A slice of dims would be a cycle, which has no finalizer

	released bool    // guarded by buf.mu
	watched  bool    // the collector finds x when it is dropped; guarded by buf.mu
	using    []usage // Uses that Used has not ended; guarded by buf.mu
}

// Empty returns a Tensor with undefined contents. Work on s may use it at once; no shape means a scalar, and
// a dimension of 0 no memory.
func (s *Stream) Empty(dt tensor.Dtype, shape ...int) (*Tensor, error) {
	if err := s.enter("Empty"); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	x, err := s.empty(dt, shape)
	if err != nil {
		return nil, named("Empty", err)
	}
	return x, nil
}

// empty is Empty inside the gate.
func (s *Stream) empty(dt tensor.Dtype, shape []int) (*Tensor, error) {
	if err := checkDtype(dt); err != nil {
		return nil, err
	}
	return s.emptyOf(dt, shape)
}

// emptyOf is empty for a dtype that was checked.
func (s *Stream) emptyOf(dt tensor.Dtype, shape []int) (*Tensor, error) {
	n, err := byteSize(dt, shape)
	if err != nil {
		return nil, err
	}
	p, err := s.dev.alloc(n, s)
	if err != nil {
		return nil, err
	}
	b := &buffer{dev: s.dev, ptr: p, size: n, home: s, handles: 1}
	x := newTensor(b, p, n, dt, shape)
	s.dev.add(b)
	s.dev.watch(x)
	return x, nil
}

// newTensor returns a Tensor over n bytes at p, which are b's.
func newTensor(b *buffer, p driver.DevicePtr, n int64, dt tensor.Dtype, shape []int) *Tensor {
	x := new(Tensor)
	x.init(b, p, n, dt, shape)
	return x
}

func (x *Tensor) init(b *buffer, p driver.DevicePtr, n int64, dt tensor.Dtype, shape []int) {
	x.buf, x.size, x.dtype, x.rank = b, n, dt, len(shape)
	if n > 0 {
		x.ptr = p
	}
	if copy(x.dims[:], shape) < len(shape) {
		x.long = tensor.Shape(shape).Clone()
	}
}

// shape returns the shape, which is x's own.
func (x *Tensor) shape() tensor.Shape {
	if x.long != nil {
		return x.long
	}
	return x.dims[:x.rank]
}

// dropped is what the collector does with a Tensor that nobody can reach, nor a part of it.
func (x *Tensor) dropped() { x.buf.dev.dropped(x.buf) }

// checkDtype refuses elements that mean nothing to a device.
func checkDtype(dt tensor.Dtype) error {
	if dt.Type == nil {
		return errors.New("it has no dtype")
	}
	if dtype.HasPointers(dt.Type) {
		return fmt.Errorf("the dtype is %v, which holds pointers: a device can't use them", dt)
	}
	if dt.Size() == 0 {
		return fmt.Errorf("the dtype is %v, whose elements have no size", dt)
	}
	return nil
}

// byteSize returns the memory that a shape needs.
func byteSize(dt tensor.Dtype, shape []int) (int64, error) {
	n, err := dtype.Bytes(int64(dt.Size()), shape)
	if err == nil && n == math.MaxInt64 {
		err = fmt.Errorf("shape %v: more bytes of %v than an int64 counts", slices.Clone(shape), dt)
	}
	return n, err
}

// Ready returns the event of the last copy that wrote x, or of the work that Used told of since. Of a Tensor that
// none wrote it is complete. Of copies on several streams that came at the same time, into parts of one memory, it is
// one: Wait waits for all.
func (x *Tensor) Ready() *Event {
	if x == nil || x.buf == nil {
		return new(Event)
	}
	x.buf.mu.Lock()
	defer x.buf.mu.Unlock()
	if x.buf.ready != nil {
		return x.buf.ready
	}
	return &Event{stream: x.buf.home, done: true}
}

// Wait returns when what wrote x last is complete, see Event.Wait.
func (x *Tensor) Wait(ctx context.Context) error {
	err := x.Ready().Wait(ctx)
	if err != nil || x == nil || x.buf == nil {
		return err
	}
	for _, e := range x.buf.otherWrites() {
		if err := e.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Use says that other code reads or writes x on s: a kernel launched on s.Handle() with x.DevicePtr(). Call
// it before the work is issued.
//
// Work that is issued to s from now on follows, on the device, the work on x that this package has issued
// so far. From now until the next copy into x or Release, x counts as used by everything issued to s: a
// copy from or into x on another stream, and the freeing of x's memory, follow whatever was issued to s by
// then. A copy into x ends that, and so does Used: call Use again for work that follows.
//
// If the last copy into x is known to have failed Use returns that error: x may have neither the old contents nor the
// new.
func (x *Tensor) Use(s *Stream) error {
	if err := x.check(s, "Use"); err != nil {
		return err
	}
	if err := s.enter("Use"); err != nil {
		return err
	}
	defer s.gate.leave()
	a, err := x.begin(s, true)
	if err != nil {
		return named("Use", err)
	}
	if err := lastFailure(a.ready, nil); err != nil {
		a.end()
		return named("Use", missing(err))
	}
	x.buf.mu.Lock()
	x.buf.used(use{stream: s, foreign: true, follows: a.ready}, a.serial)
	x.use(s)
	x.buf.mu.Unlock()
	a.end()
	return nil
}

// Release gives x's memory back: to work on the stream that x was made on at once, elsewhere when its uses
// are complete. It does not wait. Memory that x shares with parts goes back when the last of them is
// released. x must not be used afterwards; releasing it again returns ErrReleased.
//
// An error means that the driver failed, now or for good before. The memory is freed later then, at the latest by
// Device.Close.
func (x *Tensor) Release() error {
	if x == nil || x.buf == nil {
		return errors.New("asynccopy: Release: the tensor is nil, or a zero Tensor")
	}
	d := x.buf.dev
	open := d.gate.enter()
	if open {
		defer d.gate.leave()
	}
	watched, free, err := x.letGo()
	if err != nil {
		return fmt.Errorf("asynccopy: Release: the tensor was %w", err)
	}
	if watched {
		runtime.SetFinalizer(x.owner(), nil)
	}
	if free && open { // the memory of a closed device went with it
		err = x.buf.free()
	}
	if dead := d.dead.Load(); err == nil && dead != nil && open {
		err = *dead
	}
	return err
}

// owner returns the Tensor that was made with the memory. It has the finalizer, and parts keep it reachable.
func (x *Tensor) owner() *Tensor {
	if x.whole != nil {
		return x.whole
	}
	return x
}

// check refuses a Tensor that s can't use.
func (x *Tensor) check(s *Stream, call string) error {
	if x != nil && x.buf != nil && s.missing() {
		return s.errNoStream(call)
	}
	return named(call, x.misfit(s))
}

// misfit is check without the call's name, for a stream that there is.
func (x *Tensor) misfit(s *Stream) error {
	switch {
	case x == nil || x.buf == nil:
		return errors.New("the tensor is nil, or a zero Tensor")
	case x.buf.dev != s.dev:
		return fmt.Errorf("the tensor is on %v, the stream on %v: want one Device, of one call of Open", x.buf.dev, s.dev)
	}
	return nil
}

// DevicePtr returns the address of x in device memory, 0 if x is empty or was released. It waits until a
// copy of pageable memory into x that is under way was issued, so that work issued to the same stream
// afterwards sees it.
func (x *Tensor) DevicePtr() uintptr {
	if x == nil || x.buf == nil {
		return 0
	}
	var few [4]*Event
	staged := few[:0]
	x.buf.mu.Lock()
	if e := x.buf.ready; e != nil && e.stage != nil {
		staged = append(staged, e)
	}
	for _, u := range x.buf.uses {
		if u.write && u.last.stage != nil {
			staged = append(staged, u.last)
		}
	}
	p := x.ptr
	if x.released {
		p = 0
	}
	x.buf.mu.Unlock()
	for _, e := range staged {
		<-e.stage.issued
	}
	return uintptr(p)
}

// Shape returns a copy of x's shape, empty for a scalar, and for a nil or zero Tensor.
func (x *Tensor) Shape() tensor.Shape {
	if x == nil {
		return tensor.Shape{}
	}
	return x.shape().Clone()
}

// Dtype returns the type of x's elements, the zero Dtype for a nil or zero Tensor.
func (x *Tensor) Dtype() tensor.Dtype {
	if x == nil {
		return tensor.Dtype{}
	}
	return x.dtype
}

// Device returns the device that x is on, nil for a nil or zero Tensor.
func (x *Tensor) Device() *Device {
	if x == nil || x.buf == nil {
		return nil
	}
	return x.buf.dev
}

// Size returns the number of elements; 1 for a scalar, 0 for a nil or zero Tensor.
func (x *Tensor) Size() int {
	if x == nil || x.dtype.Type == nil {
		return 0
	}
	return int(x.size / int64(x.dtype.Size()))
}

// Data returns x itself: there is no host slice to give, and code that asserts one fails with a text that
// names this type.
func (x *Tensor) Data() any { return x }

// Uintptr is DevicePtr, for tensor.Memory. The host must not dereference it.
func (x *Tensor) Uintptr() uintptr { return x.DevicePtr() }

// MemSize returns the size of x's elements in bytes, 0 for a nil or zero Tensor.
func (x *Tensor) MemSize() uintptr {
	if x == nil {
		return 0
	}
	return uintptr(x.size)
}

// Format prints dtype, shape and device, with every verb. The elements stay where they are.
func (x *Tensor) Format(f fmt.State, verb rune) {
	if x == nil || x.buf == nil {
		fmt.Fprint(f, "no tensor")
		return
	}
	fmt.Fprintf(f, "%v%v on %v", x.dtype, x.Shape(), x.buf.dev)
}

// String names the device that s is a stream of.
func (s *Stream) String() string {
	if s.missing() {
		return "no stream"
	}
	return "stream on " + s.dev.String()
}

// String returns the device's number and name.
func (d *Device) String() string {
	if d.missing() {
		return "no device"
	}
	return fmt.Sprintf("device %d (%s)", d.ordinal, d.Name())
}
