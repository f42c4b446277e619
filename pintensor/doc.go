// Package pintensor gives tensors of gorgonia.org/tensor page-locked ("pinned") memory, which a GPU
// copies from and to at the full speed of the bus while the program goes on.
//
//	batch, err := pintensor.New(tensor.Float32, 64, 784) // zeros, pinned
//	copy(batch.Data().([]float32), pixels)
//	x, err := stream.ToDevice(batch, true)               // returns before the copy is done
//	err = pintensor.Release(batch)                       // the memory is lent again when it is
//
// [New] makes a tensor in pinned memory, [Pin] copies one into it, [PinInto] copies one into a tensor that is pinned already,
// and [Engine.Register] pins a tensor's memory where it is. Page-locking costs 0.1 ms, and 11 for 256 MiB; so an [Engine] keeps the memory that comes back
// and lends it again, which takes less than a microsecond beside clearing it. What is lent are ordinary
// tensors with the standard engine: all of Gorgonia works on them, and results of arithmetic are ordinary
// tensors again.
//
// In the words of CUDA and PyTorch:
//
//	torch.zeros(..., pin_memory=True)                  New
//	torch.empty(..., pin_memory=True), cudaHostAlloc   Empty
//	tensor.pin_memory()                                EnsurePinned; Pin is always a copy
//	pinned.copy_(tensor)                               PinInto
//	tensor.is_pinned(), cudaPointerGetAttributes       IsPinned
//	cudaHostRegister, cudaHostUnregister               Engine.Register
//	tensor.record_stream(s)                            Acquire and Hold.Until; package asynccopy does it
//	torch._C._host_emptyCache()                        Engine.Trim(0)
//	rmm pool_memory_resource(..., initial_pool_size)   Engine.Reserve
//	torch.cuda.host_memory_stats()                     Engine.Stats
//
// # Ownership
//
// The tensor that [New] or [Pin] returned owns its block of memory until [Release], which takes it back
// at once. Afterwards neither the tensor nor its views may be used. They still refer to memory of the
// process, so late readers read the next owner's data rather than crash; operations on the released
// tensor itself fail, and [WithPoison] makes readers of its views and slices find NaN, and tells of writers.
//
// A tensor that is not released is no leak. Blocks are memory of the Go heap, so the garbage collector
// knows when neither the tensor nor a view nor a Data slice of it is left, and its block then goes back
// to the cache. That happens some time after, so programs that care about memory call Release;
// Stats.Forgotten counts the missing ones, [WithLeakTracking] tells where they are, and package pintest
// makes tests fail that leave some. A view of a tensor that was dropped is as good as ever. A tensor that
// was released and is still referred to keeps its block, and whoever has it, from being collected, though
// not from being released and lent.
//
// Tensors smaller than 32 KiB share segments of memory that are page-locked once. A view keeps the segment of its
// tensor, at most 512 KiB; so of tensors that are dropped, not released, in one segment the memory comes back when
// the last of them is. Released ones are lent again at once. [Engine.Trim] gives segments up that nothing of is in use.
//
// A block that a copy is using is neither lent again, nor unregistered, nor collected until the copy is
// done, whatever happens to its tensor. [Acquire] is how code that issues copies says so.
//
// Memory given to [Engine.Register] stays the program's. It is kept alive while it is page-locked, which it is
// until the unregister function is called, or until the program has dropped both that and the tensor.
//
// Tensors made with tensor.WithEngine(engine), and results of arithmetic on them, have their memory from
// the engine too. Nobody releases those: the collector does, or [Engine.Free].
//
// Blocks count as any other memory of the Go heap: in GOMEMLIMIT, and in the pace of the collector. A program
// that pins a large part of the machine's memory sets GOMEMLIMIT; docs/memory.md says how, with measurements.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine at any time. A tensor itself is as safe as
// any: one writer, or any number of readers. Releasing a tensor that another goroutine is still using is
// a bug of the program. No lock is held during a call to the driver, and one block that is slow to come
// back holds up no other. There is no goroutine in the background, but for those of [Engine.ReserveAsync],
// which Close waits for, and one for the time in which the driver unregisters what was dropped after Close or beyond
// [WithMaxCached].
//
// # Errors
//
// Arguments that make no sense are errors that name them; nothing panics. Test for [ErrLimit],
// [ErrClosed], [ErrNotPinned], [ErrReleased], [ErrNotOwner], [ErrWritten], [ErrOverlap] and [ErrInUse] with
// errors.Is. An error met where nobody could be told, such as in a finalizer, comes back from the next call
// of New, Pin, Register, Alloc, Trim, TrimOlder or Close. Memory that the driver fails to unregister is kept,
// and it is asked again when the engine needs new memory, and by Trim, TrimOlder and Close.
//
// New memory beyond [WithLimit], or that the driver refuses, is an error only after everything was tried:
// copies that are done are completed, cached blocks of other sizes given up, dropped tensors collected,
// and other calls that are giving memory up, and copies in flight, waited for, at most 10 seconds. No call
// waits for longer than that.
//
// # Platforms
//
// With a CUDA device (Linux, Windows) memory is page-locked by the CUDA driver, for all devices,
// in a context: one that the program's devices have, else one made for it, which takes 0.15 s. An engine keeps it until
// Close. Without a device the operating system does it (mlock; VirtualLock on Windows), within the limit of the process, which
// `ulimit -l` shows. Beyond it blocks are ordinary memory: IsPinned says so, [Engine.Locked] and Stats.LockError
// say why and how to raise the limit, and everything else works the same.
//
// On Linux machines of several NUMA nodes memory is taken from the CUDA device's node; see [WithNUMANode].
//
// Under the race detector, and with the build tag invariants, released memory is always poisoned. Under
// the race detector, memory that was reclaimed goes back to the heap and not into the cache: the detector
// doesn't know that the collector found no reader left, and would report the next writer.
package pintensor
