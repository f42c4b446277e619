// Package asynccopy copies tensors between the host and a device without making the program wait.
//
// A [Device] is a CUDA GPU, or a software device with the same semantics in memory of the host. A [Stream]
// is a queue of work on it. [Stream.ToDevice] makes a [Tensor] of a tensor.Dense, [Stream.ToHost] brings
// one back, and their Into forms copy into what is there. Each takes the flag that PyTorch calls
// non_blocking.
//
//	PyTorch                              here
//	x.to(device)                         s.ToDevice(x, false)
//	x.pin_memory().to(device,            s.ToDevice(x, true): x may be pinned or not
//	    non_blocking=True)
//	y.copy_(x, non_blocking=True)        s.ToDeviceInto(y, x, true)
//	[x.to(device) for x in xs]           s.ToDeviceBatch(xs, true)
//	y.to("cpu", non_blocking=True)       s.ToHost(y, true): the result is had from Wait only
//	x.to("cuda:1"), y.copy_(x)           s.Copy(x, true), s.CopyInto(y, x, true)
//	torch.cuda.Stream(), Event           d.NewStream(), s.Record()
//	torch.cuda.synchronize()             d.Synchronize(ctx)
//	torch.cuda.empty_cache()             d.Trim()
//	s.wait_event(e), e.synchronize()     s.Wait(e), e.Wait(ctx)
//	x.record_stream(s)                   x.Use(s), for work of other code only
//
// What waits, and for what:
//
//	call                                 with nonBlocking                       without
//	ToDevice, ToDeviceInto,              nothing; the source must not change    the copy
//	ToDeviceBatch, ToDeviceBatchInto     until the Tensor's Wait
//	Copy, CopyInto                       nothing, or that x was read through    the copy
//	                                     the host
//	ToHost                               nothing; Download.Wait                 the copy
//	ToHostInto                           nothing; Event.Wait                    the copy
//	Record, Use, Used, EndUse,           nothing
//	Release, Stream.Wait
//	Event.Wait, Synchronize              the work, or ctx
//	Stream.Close, Device.Close, Trim     the work
//
// Nothing has two exceptions. A copy of memory that is not page-locked is issued bit by bit by goroutines;
// copies and Record on that stream, and uses of its Tensor on others, wait on the host until its last bit
// was issued. That takes as long as copying it within the host; only what exceeds 8 MiB for each of up to 8
// cores waits for the device too. And an allocation that finds no memory awaits all work before it gives
// up.
//
// # Ownership
//
// A Tensor is its caller's to Release, at any time: its memory is freed behind the work that uses it. A
// dropped one is freed after the collector has found it. Memory that several share ([Tensor.Part]) goes back
// with the last of them. The source of a copy may be dropped, or released to its pintensor.Engine, while the copy is
// under way: the copy holds it. The Dense that a Download gives is page-locked memory lent by pintensor.Default.
// Copies borrow page-locked chunks from there and have returned them when they are complete; between copies nothing
// is lent. Device.Close frees whatever is left.
//
// # Concurrency
//
// Every call may be made from any goroutine; goroutines may move between threads. A stream runs its work in
// order of issue. A Tensor orders the streams that use it: what reads follows the last write, what writes
// follows everything, what frees too, all of it on the device. Only work of other code must be told of:
// [Tensor.Use] before it is issued, and [Tensor.Used] after, so that copies for the next work can overlap with it.
//
// Cancelling a ctx stops the waiting, not the work.
//
// # Errors
//
// Bad arguments give errors that name the argument and its value, and change nothing. A driver call that
// fails gives a [*DriverError], such as "asynccopy: cuMemcpyHtoDAsync: out of memory (2)". Work that fails
// after it was issued is reported by whoever waits for it, and by the next call on the device. If the
// device is lost by that (a sticky error), all later calls return the error, and only a new process can use
// the device again.
//
// # Tracing
//
// A device that was opened [WithTrace] writes what its streams do, by its own clock, to a file for
// https://ui.perfetto.dev.
//
// # Platforms
//
// CUDA devices on Linux and Windows with a driver for CUDA 11.0 or newer, loaded when the program runs: no
// toolkit and no cgo. The software device works everywhere.
//
// With the build tag cuda, cgo and a toolkit, programs that use gorgonia.org/cu copy on their own streams:
//
//	func FromCU(ctx cu.Context, s cu.Stream) (*Stream, error)
//	func (s *Stream) CU() cu.Stream
//	func (x *Tensor) CU() cu.DevicePtr
//	func (s *Stream) TensorFromCU(p cu.DevicePtr, dt tensor.Dtype, shape ...int) (*Tensor, error)
//	func (s *Stream) RecordCU(e cu.Event) error
//	func (s *Stream) WaitCU(e cu.Event) error
package asynccopy
