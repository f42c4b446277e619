// Package soft is a device in pure Go: the device of a machine without a GPU, and the one that
// tests use. It behaves as a CUDA device does where the interface of internal/driver lets a caller
// notice, and where a CUDA device may do one of several things it does the one that hurts most.
//
//   - A copy of any length returns before it has run, from and to any host memory.
//   - Streams are FIFO and run concurrently, each in a goroutine that lives while it has work.
//   - Work that fails when it runs makes every later call on its device fail (a sticky error).
//   - Device addresses are made up, cannot be dereferenced, and are never used twice, so that an address
//     out of range, between two allocations or already freed is always found out.
//   - Kernels are functions in Go. One that returns an error, panics, or asks for memory that is not there fails
//     the device, as on a GPU, and not the process.
//   - A stream that is captured refuses what CUDA refuses, and also what CUDA would misunderstand.
//   - Calls that fail give CUDA's codes.
//
// [Config.Late] runs each operation as late as its stream allows, so that a buffer which is reused
// too early shows as wrong data rather than now and then; [Config.Delay] and [Config.Fail] slow
// operations down and make them fail when they run.
//
// # Ownership
//
// A queued copy holds the host address as a number. As with CUDA, it does not keep host memory
// alive: that is for the layer above to do, and its tests would not notice a mistake if a queue kept
// the memory alive. Device memory is Go memory, and belongs to the device until freed.
//
// # Concurrency
//
// Everything may be called from any goroutine, inside a testing/synctest bubble too if the driver is
// used by that bubble alone. Hooks of [Config] are called without a lock held, concurrently for
// operations of different streams.
//
// # Errors
//
// Failing calls return *driver.Error with the Go name of the method as its Call, such as
// "soft.CopyHtoD", and driver.ErrClosed after Close. Queues have no length limit, so issuing work
// never blocks.
//
// # Platforms
//
// The device works everywhere. [Host] page-locks memory on Linux, Darwin and Windows, within the limits
// of the system; elsewhere it returns an error that is driver.ErrNotSupported.
package soft
