package drivertest

// This file has the conformance tests of what devices do with each other. They need two.

import (
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// second returns another device, with a stream, an event and memory.
func (r *rig) second(n int64) *rig {
	r.Helper()
	if devices, err := r.drv.Devices(); err != nil || devices < 2 {
		r.Skipf("%d devices, %v: two are needed", devices, err)
	}
	dev, err := r.drv.Open(1)
	r.ok(err)
	r.Cleanup(func() { r.ok(dev.Close()) })
	return &rig{r.T, r.drv, dev}
}

// testPeers sends memory round between two devices, each waiting for the other's events.
func testPeers(r *rig) {
	const n = 1 << 20
	other := r.second(n)
	p, q := r.memory(n), other.memory(n)
	s, t := r.stream(), other.stream()
	e, f := r.event(), other.event()
	_, err := r.dev.Share(other.dev.Peer())
	r.ok(err)
	direct, err := other.dev.Share(r.dev.Peer())
	r.ok(err)
	r.Logf("direct: %v", direct)
	_, err = other.dev.Share(r.dev.Peer()) // again
	r.ok(err)
	results := r.pinned(20 * 64)
	for i := range 20 {
		r.ok(r.dev.Memset(p, byte(i+1), n, s, e))
		r.ok(other.dev.WaitEvent(t, e))
		r.ok(other.dev.CopyPeer(q, p, r.dev.Peer(), n, t, f))
		r.ok(r.dev.WaitEvent(s, f))
		r.ok(r.dev.Memset(p, 0, n, s, 0)) // after the copy, so it does no harm
		other.download(results[i*64:][:64], q+n-64, t, f)
	}
	r.ok(other.dev.CopyPeer(q, p, r.dev.Peer(), 0, t, f)) // nothing
	r.ok(other.dev.SyncEvent(f))
	for i := range 20 {
		for k, b := range results[i*64:][:64] {
			if b != byte(i+1) {
				r.Fatalf("round %d: byte %d is %d", i, k, b)
			}
		}
	}
	r.ok(r.dev.SyncStream(s))
}

// testPeersOfThePool is testPeers for memory that was allocated in stream order, before and after Share.
func testPeersOfThePool(r *rig) {
	const n = 4096
	other := r.second(n)
	s, t := r.stream(), other.stream()
	e := r.event()
	alloc := func() driver.DevicePtr {
		p, err := r.dev.AllocAsync(n, s)
		if err != nil {
			r.Skip(err)
		}
		return p
	}
	before := alloc()
	_, err := r.dev.Share(other.dev.Peer())
	r.ok(err)
	after := alloc()
	q, b := other.memory(n), r.pinned(n)
	for i, p := range []driver.DevicePtr{before, after} {
		r.ok(r.dev.Memset(p, byte(i+1), n, s, e))
		r.ok(other.dev.WaitEvent(t, e))
		r.ok(other.dev.CopyPeer(q, p, r.dev.Peer(), n, t, 0))
		other.download(b, q, t, 0)
		r.ok(other.dev.SyncStream(t))
		if b[0] != byte(i+1) || b[n-1] != byte(i+1) {
			r.Errorf("allocation %d: %d and %d arrived", i, b[0], b[n-1])
		}
		r.ok(r.dev.FreeAsync(p, s))
	}
}

// testBadPeers makes copies that must fail, and harm nothing.
func testBadPeers(r *rig) {
	other := r.second(64)
	p, q, t := r.memory(64), other.memory(64), other.stream()
	nowhere := driver.DevicePtr(unsafe.Sizeof(p)) // an address that no device has
	for what, err := range map[string]error{
		"to nowhere":   other.dev.CopyPeer(nowhere, p, r.dev.Peer(), 64, t, 0),
		"from nowhere": other.dev.CopyPeer(q, nowhere, r.dev.Peer(), 64, t, 0),
	} {
		if err == nil {
			r.Error(fmt.Sprint("a copy ", what, ": no error"))
		}
	}
	other.roundTrip(t)
}
