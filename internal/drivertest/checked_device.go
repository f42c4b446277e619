package drivertest

// This file checks devices: what each holds, and that calls use only that.

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

type checkedDriver struct {
	*ledger
	inner driver.Driver

	once sync.Once
	host *checkedHost

	open      sync.Mutex // guards byOrdinal
	byOrdinal map[int]*holdings
}

// holdings is what the Devices of one ordinal share. Addresses and handles of two devices may be equal.
type holdings struct {
	*ledger
	ordinal int

	functions functions

	mu     sync.Mutex
	users  int
	memory map[driver.DevicePtr]int64
}

// The ledger's keys.
type (
	openDevice struct{ d *checkedDevice }
	streamKey  struct {
		of *holdings
		s  driver.Stream
	}
	eventKey struct {
		of *holdings
		e  driver.Event
	}
	memoryKey struct {
		of *holdings
		p  driver.DevicePtr
	}
)

func (c *checkedDriver) Host() driver.Host {
	c.once.Do(func() { c.host = &checkedHost{ledger: c.ledger, inner: c.inner.Host()} })
	return c.host
}

func (c *checkedDriver) Devices() (int, error) { return c.inner.Devices() }

func (c *checkedDriver) Open(ordinal int) (driver.Device, error) {
	d, err := c.inner.Open(ordinal)
	if err != nil {
		return nil, err
	}
	c.open.Lock()
	defer c.open.Unlock()
	h := c.byOrdinal[ordinal]
	if h == nil {
		h = &holdings{ledger: c.ledger, ordinal: ordinal, memory: make(map[driver.DevicePtr]int64)}
		c.byOrdinal[ordinal] = h
	}
	h.mu.Lock()
	h.users++
	h.mu.Unlock()
	checked := &checkedDevice{holdings: h, inner: d}
	c.add(openDevice{checked}, fmt.Sprintf("device %d", ordinal))
	return checked, nil
}

type checkedDevice struct {
	*holdings
	inner  driver.Device
	closed atomic.Bool
}

func (d *checkedDevice) Name() string { return d.inner.Name() }

func (d *checkedDevice) Within(call func() error) error { return d.inner.Within(call) }

func (d *checkedDevice) MemInfo() (free, total int64, err error) { return d.inner.MemInfo() }

func (d *checkedDevice) TrimPool(keep int64) error { return d.inner.TrimPool(keep) }

func (d *checkedDevice) Alloc(n int64) (driver.DevicePtr, error) {
	p, err := d.inner.Alloc(n)
	if err == nil {
		d.hold(p, n)
	}
	return p, err
}

func (d *checkedDevice) AllocAsync(n int64, s driver.Stream) (driver.DevicePtr, error) {
	d.checkStream("AllocAsync", s)
	p, err := d.inner.AllocAsync(n, s)
	if err == nil {
		d.hold(p, n)
	}
	return p, err
}

func (d *checkedDevice) Free(p driver.DevicePtr) error {
	d.drop("Free", p)
	return d.inner.Free(p)
}

func (d *checkedDevice) FreeAsync(p driver.DevicePtr, s driver.Stream) error {
	d.checkStream("FreeAsync", s)
	d.drop("FreeAsync", p)
	return d.inner.FreeAsync(p, s)
}

func (d *checkedDevice) NewStream(priority int) (driver.Stream, error) {
	s, err := d.inner.NewStream(priority)
	if err == nil {
		d.add(streamKey{d.holdings, s}, fmt.Sprintf("stream %#x of device %d", s, d.ordinal))
	}
	return s, err
}

func (d *checkedDevice) DestroyStream(s driver.Stream) error {
	if !d.remove(streamKey{d.holdings, s}) {
		d.complain("DestroyStream: no stream %#x", s)
	}
	return d.inner.DestroyStream(s)
}

func (d *checkedDevice) SyncStream(s driver.Stream) error {
	d.checkStream("SyncStream", s)
	return d.inner.SyncStream(s)
}

func (d *checkedDevice) NewEvent() (driver.Event, error) {
	e, err := d.inner.NewEvent()
	if err == nil {
		d.add(eventKey{d.holdings, e}, fmt.Sprintf("event %#x of device %d", e, d.ordinal))
	}
	return e, err
}

func (d *checkedDevice) DestroyEvent(e driver.Event) error {
	if !d.remove(eventKey{d.holdings, e}) {
		d.complain("DestroyEvent: no event %#x", e)
	}
	return d.inner.DestroyEvent(e)
}

func (d *checkedDevice) Record(e driver.Event, s driver.Stream) error {
	d.checkEvent("Record", e)
	d.checkStream("Record", s)
	return d.inner.Record(e, s)
}

func (d *checkedDevice) Query(e driver.Event) (done bool, err error) {
	d.checkEvent("Query", e)
	return d.inner.Query(e)
}

func (d *checkedDevice) SyncEvent(e driver.Event) error {
	d.checkEvent("SyncEvent", e)
	return d.inner.SyncEvent(e)
}

func (d *checkedDevice) WaitEvent(s driver.Stream, e driver.Event) error {
	d.checkStream("WaitEvent", s)
	if !d.has(eventKey{d.holdings, e}) && !d.hasElsewhere(e) {
		d.complain("WaitEvent: no event %#x", e)
	}
	return d.inner.WaitEvent(s, e)
}

func (d *checkedDevice) CopyHtoD(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream, done driver.Event) error {
	d.checkIssue("CopyHtoD", s, done)
	d.checkMemory("CopyHtoD", "dst", dst, n)
	return d.inner.CopyHtoD(dst, src, n, s, done)
}

func (d *checkedDevice) CopyDtoH(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	d.checkIssue("CopyDtoH", s, done)
	d.checkMemory("CopyDtoH", "src", src, n)
	return d.inner.CopyDtoH(dst, src, n, s, done)
}

func (d *checkedDevice) CopyDtoD(dst, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	d.checkIssue("CopyDtoD", s, done)
	d.checkMemory("CopyDtoD", "dst", dst, n)
	d.checkMemory("CopyDtoD", "src", src, n)
	return d.inner.CopyDtoD(dst, src, n, s, done)
}

func (d *checkedDevice) Memset(dst driver.DevicePtr, value byte, n int64, s driver.Stream, done driver.Event) error {
	d.checkIssue("Memset", s, done)
	d.checkMemory("Memset", "dst", dst, n)
	return d.inner.Memset(dst, value, n, s, done)
}

func (d *checkedDevice) Close() error {
	if d.closed.Swap(true) {
		return d.inner.Close()
	}
	d.remove(openDevice{d})
	d.mu.Lock()
	d.users--
	last := d.users == 0
	d.mu.Unlock()
	if last {
		if left := d.left(); left > 0 {
			d.complain("Close: device %d still has %d streams, events, allocations, modules and graphs", d.ordinal, left)
		}
	}
	return d.inner.Close()
}

func (d *checkedDevice) checkIssue(call string, s driver.Stream, done driver.Event) {
	d.checkStream(call, s)
	if done != 0 {
		d.checkEvent(call, done)
	}
}

func (d *checkedDevice) checkStream(call string, s driver.Stream) {
	if !d.has(streamKey{d.holdings, s}) {
		d.complain("%s: no stream %#x", call, s)
	}
}

func (d *checkedDevice) checkEvent(call string, e driver.Event) {
	if !d.has(eventKey{d.holdings, e}) {
		d.complain("%s: no event %#x", call, e)
	}
}

// checkMemory complains unless the n bytes at p lie in one allocation.
func (d *checkedDevice) checkMemory(call, argument string, p driver.DevicePtr, n int64) {
	if n <= 0 || d.within(p, n) {
		return
	}
	d.complain("%s: %s: no memory of %d bytes at %#x", call, argument, n, p)
}

func (h *holdings) within(p driver.DevicePtr, n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for base, size := range h.memory {
		if p >= base && int64(p-base)+n <= size {
			return true
		}
	}
	return false
}

func (d *checkedDevice) hold(p driver.DevicePtr, n int64) {
	d.mu.Lock()
	d.memory[p] = n
	d.mu.Unlock()
	d.add(memoryKey{d.holdings, p}, fmt.Sprintf("device memory of %d bytes at %#x of device %d", n, p, d.ordinal))
}

// drop is called before the memory is freed: afterwards another goroutine may get the same address.
func (d *checkedDevice) drop(call string, p driver.DevicePtr) {
	d.mu.Lock()
	delete(d.memory, p)
	d.mu.Unlock()
	if !d.remove(memoryKey{d.holdings, p}) {
		d.complain("%s: no memory allocated at %#x", call, p)
	}
}

// left counts what the ledger has of h.
func (h *holdings) left() int {
	h.ledger.mu.Lock()
	defer h.ledger.mu.Unlock()
	n := 0
	for key := range h.ledger.held {
		switch key := key.(type) {
		case streamKey:
			if key.of == h {
				n++
			}
		case eventKey:
			if key.of == h {
				n++
			}
		case memoryKey:
			if key.of == h {
				n++
			}
		case moduleKey:
			if key.of == h {
				n++
			}
		case graphKey:
			if key.of == h {
				n++
			}
		}
	}
	return n
}

// hasElsewhere reports whether another device has an event.
func (l *ledger) hasElsewhere(e driver.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.held {
		if key, ok := key.(eventKey); ok && key.e == e {
			return true
		}
	}
	return false
}

func (d *checkedDevice) Peer() driver.Peer { return d.inner.Peer() }

func (d *checkedDevice) Share(with driver.Peer) (bool, error) { return d.inner.Share(with) }

// CopyPeer leaves src to the driver: whose it is, only that knows.
func (d *checkedDevice) CopyPeer(dst, src driver.DevicePtr, from driver.Peer, n int64, s driver.Stream, done driver.Event) error {
	d.checkIssue("CopyPeer", s, done)
	d.checkMemory("CopyPeer", "dst", dst, n)
	return d.inner.CopyPeer(dst, src, from, n, s, done)
}
