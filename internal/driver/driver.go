// Package driver is the interface that everything above internal/ uses to reach a device: host
// registration, device memory, streams, events, copies, kernels and graphs. internal/cuda implements it over
// the CUDA driver, internal/soft in pure Go, internal/drivertest wraps either to inject faults and
// holds the conformance suite that both pass.
//
// # Ownership
//
// Handles are plain integers, so that a copy costs one interface call and no allocation, and so
// that handles made by other code (a CUstream of gorgonia.org/cu) can be used as they are. They
// carry no lifetime: whoever creates one destroys it. Safety is the business of the layers above.
//
// # Concurrency
//
// Every method may be called from any goroutine at any time, also on handles in use by another
// goroutine. An implementation that needs thread state (a current context) sets it for the call and
// puts back what was there.
//
// # Ordering
//
// A [Stream] is FIFO: operations on it run one after another, in the order in which they were
// issued. Different streams run concurrently. An [Event] stands for the work issued to its stream
// before the latest Record.
//
// # Errors
//
// A failing call returns an *[Error], or after Close an error that is [ErrClosed]. A call that fails
// leaves no work behind: what it issued, if anything, has completed. Calls that release something have
// then done so as far as they ever will. Work that fails after it was issued makes a device's later
// calls fail with that error, as CUDA's sticky errors do; such an error never goes away.
package driver

import "unsafe"

// DevicePtr is an address in device memory. It can be offset like an address, and must not be
// dereferenced by the host.
type DevicePtr uintptr

// Stream is a queue of work on a device (a CUstream). Zero is no stream.
type Stream uintptr

// Event is a marker in a stream (a CUevent). Zero is no event.
type Event uintptr

// Host page-locks host memory, so that devices can read and write it at full speed and while the
// host does something else.
type Host interface {
	// Name says how memory is locked: "cuda" or "mlock".
	Name() string

	// Register page-locks the n bytes at p, for every device of the process. It blocks, for up to
	// several milliseconds per 100 MiB. The range must not overlap one that is registered, and its
	// memory must stay allocated until Unregister has returned.
	Register(p unsafe.Pointer, n int64) error

	// Unregister undoes the Register call that was given p. It may wait for device work. If it fails, the
	// memory may still be page-locked and must not be used for anything else; the call may be repeated.
	Unregister(p unsafe.Pointer) error
}

// Located is a Host that knows where on the machine its device is. Not every Host does.
type Located interface {
	// PCIBusID returns the address of the device that memory is registered through, such as "0000:3b:00.0".
	PCIBusID() (string, error)
}

// Keeper is a Host that page-locks memory in something which takes far longer to make than one call, such as a CUDA context,
// and which goes when nothing is registered and no device is open. Not every Host is one.
type Keeper interface {
	// Keep has it stay until release is called, also if nothing is registered. Calling release again does nothing.
	Keep() (release func() error, err error)
}

// Driver gives access to the devices of one kind.
type Driver interface {
	Host() Host

	// Devices returns how many devices there are. They are numbered from 0.
	Devices() (int, error)

	// Open returns the device with the given ordinal. Opening one twice gives two Devices that share
	// handles and memory; it is closed for good when both are.
	Open(ordinal int) (Device, error)
}

// Device is one device, and the context in which its work runs.
type Device interface {
	Launcher
	Grapher
	Clock
	PeerCopier

	// Name is the device's name, for people.
	Name() string

	// Within calls call once, with the device's context current where devices have such a thing, and returns
	// its error: for calls of other libraries, such as cuBLAS. call runs on the calling goroutine, locked to
	// its thread, and must not close the device.
	Within(call func() error) error

	// MemInfo returns the device's free and total memory in bytes.
	MemInfo() (free, total int64, err error)

	// Alloc reserves n bytes of device memory, n > 0, with undefined contents. It may wait for all
	// work on the device.
	Alloc(n int64) (DevicePtr, error)

	// Free releases what Alloc or AllocAsync returned. It may wait for all work on the device.
	Free(p DevicePtr) error

	// AllocAsync is Alloc in stream order: the memory may be used by work issued to s from now on. It
	// never waits. A device without stream-ordered allocation returns [ErrNotSupported].
	AllocAsync(n int64, s Stream) (DevicePtr, error)

	// FreeAsync releases what AllocAsync returned once the work issued to s so far is done.
	FreeAsync(p DevicePtr, s Stream) error

	// TrimPool gives memory that FreeAsync left in the device's pool back, keeping at least keep
	// bytes. A device without stream-ordered allocation does nothing.
	TrimPool(keep int64) error

	// NewStream returns a stream that does not synchronise with the device's default stream. Lower
	// numbers are more urgent; 0 is normal.
	NewStream(priority int) (Stream, error)

	// DestroyStream releases s. Work issued to it still runs; the call does not wait for it.
	DestroyStream(s Stream) error

	// SyncStream blocks until all work issued to s has completed.
	SyncStream(s Stream) error

	// NewEvent returns an event without timing. One never recorded counts as completed.
	NewEvent() (Event, error)

	// DestroyEvent releases e. It does not wait.
	DestroyEvent(e Event) error

	// Record makes e stand for the work issued to s so far.
	Record(e Event, s Stream) error

	// Query reports whether the work that e stands for has completed. It never waits.
	Query(e Event) (done bool, err error)

	// SyncEvent blocks until the work that e stands for has completed.
	SyncEvent(e Event) error

	// WaitEvent makes work issued to s from now on wait, on the device, for the work that e stands for
	// at the time of the call. It does not block the host. e may be of another device of the same Driver.
	WaitEvent(s Stream, e Event) error

	// CopyHtoD issues a copy of n bytes from the host to the device on s, then records done on s
	// unless done is zero. n may be zero. From registered memory the call does not wait for the copy:
	// src must stay allocated and unchanged until done has completed. From other memory it may wait.
	CopyHtoD(dst DevicePtr, src unsafe.Pointer, n int64, s Stream, done Event) error

	// CopyDtoH is CopyHtoD the other way: dst must stay allocated and unread until done has completed.
	CopyDtoH(dst unsafe.Pointer, src DevicePtr, n int64, s Stream, done Event) error

	// CopyDtoD issues a copy of n bytes within the device on s. The ranges must not overlap.
	CopyDtoD(dst, src DevicePtr, n int64, s Stream, done Event) error

	// Memset issues a fill of n bytes with value on s.
	Memset(dst DevicePtr, value byte, n int64, s Stream, done Event) error

	// Close releases the device. Streams, events and memory made through it must be released before.
	// Closing twice is harmless.
	Close() error
}
