package drivertest

// This file runs the conformance suite and has what its tests share.

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

// Run tests that the driver that open returns does what package driver says. open is called once for each
// test; the driver must have a device 0 with 128 MiB of free memory. What is a mistake of the caller, such
// as a destroyed handle, is undefined for CUDA and not tested here.
func Run(t *testing.T, open func(t *testing.T) driver.Driver) {
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) {
			leak.Check(t)
			drv := open(t)
			if !c.misuse {
				drv = Checked(t, drv)
			}
			c.test(newRig(t, drv))
		})
	}
}

// conformance is a test of the suite. One with misuse does what Checked complains of.
type conformance struct {
	name   string
	misuse bool
	test   func(*rig)
}

var suite = []conformance{
	{name: "alloc and free", test: testAllocFree},
	{name: "out of memory, then usable again", test: testOutOfMemory},
	{name: "allocation in stream order", test: testAllocAsync},
	{name: "copies of all sizes and offsets", test: testCopies},
	{name: "copies from and to pageable memory", test: testPageable},
	{name: "copies of nothing", test: testCopyNothing},
	{name: "fills", test: testMemset},
	{name: "a stream is in order", test: testFIFO},
	{name: "events", test: testEvents},
	{name: "an event wait stands for the time of the call", test: testWaitCaptures},
	{name: "chains across streams", test: testChains},
	{name: "a destroyed stream finishes its work", test: testDestroyBusyStream},
	{name: "goroutines with a stream each", test: testGoroutines},
	{name: "goroutines that share a stream", test: testSharedStream},
	{name: "kernels between copies", test: testKernels},
	{name: "kernels across streams", test: testKernelsAcrossStreams},
	{name: "modules", test: testModules},
	{name: "bad launches", misuse: true, test: testBadLaunches},
	{name: "times", test: testTimes},
	{name: "a graph of every kind of work", test: testGraph},
	{name: "a graph's launches are in order", test: testGraphInOrder},
	{name: "a graph with branches", test: testBranches},
	{name: "dependencies outside of a capture", test: testDependenciesOutside},
	{name: "a graph of nothing", test: testEmptyGraph},
	{name: "a destroyed graph finishes its work", test: testDestroyBusyGraph},
	{name: "a capture disturbs nobody", test: testCaptureDisturbsNobody},
	{name: "a spoilt capture", test: testSpoiltCapture},
	{name: "bad graphs", misuse: true, test: testBadGraphs},
	{name: "copies between devices", test: testPeers},
	{name: "copies between devices, of pool memory", test: testPeersOfThePool},
	{name: "bad copies between devices", misuse: true, test: testBadPeers},
	{name: "host registration", misuse: true, test: testHost},
	{name: "registrations that share a page", misuse: true, test: testHostNeighbours},
	{name: "devices that don't exist", test: testOpenErrors},
	{name: "bad arguments", misuse: true, test: testBadArguments},
	{name: "one device opened twice", test: testOpenTwice},
	{name: "after Close", misuse: true, test: testAfterClose},
}

// rig is a test with a device. Its methods end the test for errors.
type rig struct {
	*testing.T
	drv driver.Driver
	dev driver.Device
}

func newRig(t *testing.T, drv driver.Driver) *rig {
	t.Helper()
	dev, err := drv.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, drv, dev}
	t.Cleanup(func() { r.ok(dev.Close()) })
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// stream returns a stream that is synchronised and destroyed when the test ends.
func (r *rig) stream() driver.Stream {
	r.Helper()
	s, err := r.dev.NewStream(0)
	r.ok(err)
	r.Cleanup(func() {
		r.ok(r.dev.SyncStream(s))
		r.ok(r.dev.DestroyStream(s))
	})
	return s
}

func (r *rig) event() driver.Event {
	r.Helper()
	e, err := r.dev.NewEvent()
	r.ok(err)
	r.Cleanup(func() { r.ok(r.dev.DestroyEvent(e)) })
	return e
}

// memory returns device memory. Streams made later are idle before it is freed.
func (r *rig) memory(n int64) driver.DevicePtr {
	r.Helper()
	p, err := r.dev.Alloc(n)
	r.ok(err)
	r.Cleanup(func() { r.ok(r.dev.Free(p)) })
	return p
}

// pinned returns page-locked memory, a Go allocation with pages of its own. Where the system does not let the
// process lock that much, ordinary memory does for a driver that copies from any memory in the same way.
func (r *rig) pinned(n int) []byte {
	r.Helper()
	b := make([]byte, max(32<<10, (n+8191)&^8191))
	host := r.drv.Host()
	err := host.Register(unsafe.Pointer(&b[0]), int64(len(b)))
	if err != nil && host.Name() != "cuda" && (errors.Is(err, driver.ErrOutOfMemory) || errors.Is(err, driver.ErrNotSupported)) {
		return b[:n]
	}
	r.ok(err)
	r.Cleanup(func() { r.ok(host.Unregister(unsafe.Pointer(&b[0]))) })
	return b[:n]
}

func (r *rig) upload(dst driver.DevicePtr, src []byte, s driver.Stream, done driver.Event) {
	r.Helper()
	r.ok(r.dev.CopyHtoD(dst, address(src), int64(len(src)), s, done))
}

func (r *rig) download(dst []byte, src driver.DevicePtr, s driver.Stream, done driver.Event) {
	r.Helper()
	r.ok(r.dev.CopyDtoH(address(dst), src, int64(len(dst)), s, done))
}

// equal compares without printing megabytes.
func (r *rig) equal(what string, got, want []byte) {
	r.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			r.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(want), got[i], want[i])
		}
	}
}

func address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// pattern fills b with bytes that depend on their place and on seed.
func pattern(b []byte, seed int) {
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}
