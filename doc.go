// Package pin is the front page of a module that feeds GPUs from Go, for the Gorgonia tensor
// ecosystem. It contains documentation, examples and benchmarks; the code is in its packages:
//
//   - [github.com/pintensor/pin/pintensor]: page-locked ("pinned") host memory for tensor.Dense, with
//     a cache;
//   - [github.com/pintensor/pin/asynccopy]: devices, streams and events, and copies between tensors
//     and devices that do not block;
//   - [github.com/pintensor/pin/dataloader]: batches, read in parallel straight into pinned memory,
//     and copied to the device ahead of time;
//   - [github.com/pintensor/pin/devicevm]: a gorgonia.VM that runs and trains ordinary Gorgonia graphs on
//     a device.
//
// In PyTorch's words:
//
//	torch.zeros(n, pin_memory=True), empty      pintensor.New(dt, n), pintensor.Empty
//	t.pin_memory(), t.is_pinned()               pintensor.EnsurePinned(t), pintensor.IsPinned(t)
//	t.to("cuda", non_blocking=True)             stream.ToDevice(t, true)
//	x.to("cpu", non_blocking=True)              stream.ToHost(x, true), then Download.Wait
//	torch.cuda.Stream(), Event                  device.NewStream(), stream.Record()
//	stream.wait_event(e), synchronize()         stream.Wait(e), stream.Synchronize(ctx)
//	x.record_stream(s)                          not needed between streams of this module; x.Use(s) otherwise
//	DataLoader(ds, batch_size, shuffle, ...)    dataloader.New(ds, dataloader.Config{...})
//
// # Platforms
//
// No C compiler and no CUDA toolkit are needed. The CUDA driver is loaded at run time, on Linux and
// Windows; where there is none, a device in software takes its place, with the same behaviour.
package pin
