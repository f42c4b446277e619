// Package cuda is a driver over the CUDA driver library, which it loads when the program runs:
// neither cgo nor a CUDA toolkit is needed to build, and a program runs where there is no GPU too.
//
// # Layers
//
// A symbol is an address in the library and the call's name; a [frame] calls symbols and turns their
// results into errors; a [Device] sets the context for the calls on it. Nothing else touches the library.
//
// # Contexts
//
// A context is current per OS thread, and goroutines move between threads. So each method locks its
// thread, pushes the device's context, makes all its calls, and pops it, which puts back what the
// program had current. A copy and the record of its event share one push. From the driver for CUDA 13 on
// calls that take a stream or an event, which are all that a copy needs, do without: they run in the
// stream's context, whatever is current. So other code may leave any context current on any thread, or none. If it
// has destroyed one that is current on another thread, as gorgonia.org/cu does, copies on that thread are refused; then
// they too push the device's context. What was current is so again afterwards, a context that is no more included: it is
// the program's to replace.
//
// # Kernels
//
// PTX is compiled by the driver when it is loaded. Launches and graphs set the context, with newer drivers too. A
// capture is a relaxed one: other threads may go on allocating and registering memory, and a goroutine may end it on
// another thread than it began it on.
//
// # Ownership
//
// A Device retains its device's primary context, the one that the CUDA runtime, PyTorch and cuBLAS use too,
// and releases it when closed. Device memory of AllocAsync comes from a memory pool of the Device's own,
// which keeps freed memory until TrimPool or Close. Every host registration retains a primary context of
// its own accord, since it would end with the context: one that is active already, so that none appears on
// a device which the program does not use.
//
// # Concurrency
//
// Every method may be called from any goroutine. Close waits for calls in flight; later ones get
// driver.ErrClosed.
//
// # Waiting
//
// SyncStream and SyncEvent ask again and again for 50 µs, where short copies end; then between the turns
// of other goroutines, so that they keep a core busy only if nobody else has use for it; and after 4 ms
// with naps of 1/64 of the time waited so far, at most 1 ms. The driver's default would keep a core
// busy to the end, and sleeping at once would make a copy of 1 MiB take three times as long. Sleeping until the device
// interrupts (CU_EVENT_BLOCKING_SYNC) needs events that make every copy dearer, whether anybody sleeps or not.
//
// # Errors
//
// A failing call returns a *driver.Error with the library's own name of the call, without _v2, its code,
// and what cuGetErrorName and cuGetErrorString say of it. [Load]'s is driver.ErrUnavailable and says what
// was tried.
//
// # Platforms
//
// Linux (libcuda.so.1) and Windows (nvcuda.dll) on amd64 and arm64, with a driver for CUDA 11.0 or
// newer. Stream-ordered allocation needs 11.2 and is not supported before. Elsewhere Load says unavailable.
package cuda
