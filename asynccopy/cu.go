//go:build cuda

package asynccopy

// This file joins this package with gorgonia.org/cu: on its contexts and streams, with its events and pointers.
//
// A cu.Stream, cu.Event and cu.CUContext are each the driver's handle and nothing else, and this package calls the
// same library that cu is linked to. So what changes hands are handles.

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/cuda"
	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/cu"
	"gorgonia.org/tensor"
)

// That a handle is all there is fails to compile rather than to work.
var (
	_ [unsafe.Sizeof(uintptr(0))]struct{} = [unsafe.Sizeof(cu.Stream{})]struct{}{}
	_ [unsafe.Sizeof(uintptr(0))]struct{} = [unsafe.Sizeof(cu.Event{})]struct{}{}
	_ [unsafe.Sizeof(uintptr(0))]struct{} = [unsafe.Sizeof(cu.CUContext{})]struct{}{}
)

var cuDevices guests

// FromCU returns a Stream on a stream that the caller made with gorgonia.org/cu, in its context: a *cu.Ctx, a
// *cu.BatchedContext, or nil for the context that is current on the calling thread (hold it with
// runtime.LockOSThread, as cu has you do anyway).
//
// It may be called, and the Stream used, from any goroutine: no call goes through the context's own goroutine, and
// what a thread has current is as before after each. Work that is issued with cu to the same stream, and work that
// is issued here, runs in the order of issue; but copies of pageable memory are issued bit by bit, so call
// [Stream.CU] again after starting one, which waits until it was issued.
//
// The stream and the context stay cu's. Stream.Close waits for the stream's work and leaves it to cu to destroy; all
// Streams of a context are on one Device, and its Close gives up what this package made in the context. So: close
// the Device (Stream.Device), then destroy the streams, then close the context. The same stream again gives the same
// Stream, until it is closed.
//
// s must not be cu.NoStream: the default stream waits for all others, and they for it. The error then, and for a
// context that is not there, says so; that s belongs to ctx is not checked.
func FromCU(ctx cu.Context, s cu.Stream) (*Stream, error) {
	if s == cu.NoStream {
		return nil, errors.New("asynccopy: FromCU: s is cu.NoStream, want a stream made with MakeStream")
	}
	handle, err := cuContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("asynccopy: FromCU: ctx: %w", err)
	}
	d, err := cuDevices.device(handle, func() (*Device, error) { return adopt(handle) })
	if err != nil {
		return nil, err
	}
	stream, err := d.borrow(driver.Stream(unsafe.Pointer(s.C())))
	return stream, named("FromCU", err)
}

// cuContext returns the handle of ctx, or of the current context.
func cuContext(ctx cu.Context) (uintptr, error) {
	var handle cu.CUContext
	if ctx == nil {
		var err error
		if handle, err = cu.CurrentContext(); err != nil {
			return 0, err
		}
	} else {
		handle = ctx.CUDAContext()
	}
	p := *(*uintptr)(unsafe.Pointer(&handle))
	if p == 0 && ctx == nil {
		return 0, errors.New("it is nil, and no context is current on this thread")
	}
	if p == 0 {
		return 0, errors.New("it was closed")
	}
	return p, nil
}

// adopt returns a Device in a context that is cu's.
func adopt(ctx uintptr) (*Device, error) {
	dev, err := cuda.Adopt(ctx)
	if err != nil {
		return nil, fmt.Errorf("asynccopy: FromCU: %w", err)
	}
	return newDevice(dev, dev.Ordinal(), true, options{})
}

// CU returns s for gorgonia.org/cu, whoever made it. It waits until copies of pageable memory that were started on s
// have been issued, as [Stream.Handle] does. cu must not destroy a stream that NewStream made. cu.NoStream if s is
// closed.
func (s *Stream) CU() cu.Stream {
	h := s.Handle()
	return *(*cu.Stream)(unsafe.Pointer(&h))
}

// CU returns the address of x for gorgonia.org/cu, as [Tensor.DevicePtr] does. Tell of what cu does with it, unless
// that is on the stream that the copies of x are on: [Tensor.Use].
func (x *Tensor) CU() cu.DevicePtr { return cu.DevicePtr(x.DevicePtr()) }

// TensorFromCU returns a Tensor on memory that the caller allocated with gorgonia.org/cu, of s's context. The memory
// stays cu's: Release forgets it, and it must not be freed before the work that uses it is complete. Streams other
// than s that use it wait for what was issued to s by then.
func (s *Stream) TensorFromCU(p cu.DevicePtr, dt tensor.Dtype, shape ...int) (*Tensor, error) {
	if err := s.enter("TensorFromCU"); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	x, err := s.guestTensor(driver.DevicePtr(p), dt, shape)
	return x, named("TensorFromCU", err)
}

// RecordCU records an event that the caller made with gorgonia.org/cu, behind all work issued to s so far: cu's
// streams and goroutines can wait for it, whoever made s.
func (s *Stream) RecordCU(e cu.Event) error { return s.mark(*(*driver.Event)(unsafe.Pointer(&e))) }

// WaitCU makes work issued to s from now on wait, on the device, for what an event of gorgonia.org/cu stands for.
func (s *Stream) WaitCU(e cu.Event) error { return s.await(*(*driver.Event)(unsafe.Pointer(&e))) }
