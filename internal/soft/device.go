package soft

// This file has the device: its life, its memory calls, its streams and events as handles.

import (
	"fmt"
	"sync"

	"github.com/pintensor/pin/internal/driver"
)

// core is what all Devices of one ordinal share.
type core struct {
	config  *Config
	ordinal int
	users   int // Devices open on it; guarded by Driver.mu

	// mu guards all that follows, the streams' queues included. No operation runs under it.
	mu        sync.Mutex
	memory    memory
	streams   map[driver.Stream]*stream
	orphans   map[*stream]struct{} // destroyed, with work left to run
	events    map[driver.Event]*event
	modules   map[driver.Module]*module
	functions map[driver.Function]*function
	graphs    map[driver.Graph]*graph
	lastID    uintptr // of all handles: one is never taken for one of another kind
	issued    int64   // operations
	failed    *driver.Error
}

func newCore(config *Config, ordinal int) *core {
	return &core{
		config:    config,
		ordinal:   ordinal,
		memory:    memory{total: config.Memory, next: firstAddress},
		streams:   make(map[driver.Stream]*stream),
		orphans:   make(map[*stream]struct{}),
		events:    make(map[driver.Event]*event),
		modules:   make(map[driver.Module]*module),
		functions: make(map[driver.Function]*function),
		graphs:    make(map[driver.Graph]*graph),
		lastID:    uintptr(ordinal) << (addressBits / 2),
	}
}

// device is one Open of a core.
type device struct {
	*core
	driver *Driver
	closed bool // guarded by core.mu
}

// begin locks the device for a call. With an error it is not locked.
func (d *device) begin(method string) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return fmt.Errorf("soft.%s: device %d: %w", method, d.ordinal, driver.ErrClosed)
	}
	if err := d.failed; err != nil {
		d.mu.Unlock()
		return err
	}
	return nil
}

// beginRelease is begin for calls that give something up. They do so on a failed device too.
func (d *device) beginRelease(method string) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return fmt.Errorf("soft.%s: device %d: %w", method, d.ordinal, driver.ErrClosed)
	}
	return nil
}

// endRelease unlocks, and returns err or else the device's sticky error.
func (d *device) endRelease(err *driver.Error) error {
	if err == nil {
		err = d.failed
	}
	d.mu.Unlock()
	return asError(err)
}

// asError avoids an error that is not nil though its pointer is.
func asError(err *driver.Error) error {
	if err == nil {
		return nil
	}
	return err
}

func (d *device) Name() string { return fmt.Sprintf("software device %d", d.ordinal) }

// Within has no context to make current.
func (d *device) Within(call func() error) error {
	if err := d.begin("Within"); err != nil {
		return err
	}
	d.mu.Unlock()
	return call()
}

func (d *device) MemInfo() (free, total int64, err error) {
	if err := d.begin("MemInfo"); err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	m := &d.memory
	return m.total - m.used - m.pooled, m.total, nil
}

func (d *device) Alloc(n int64) (driver.DevicePtr, error) { return d.alloc("Alloc", n, 0) }

func (d *device) AllocAsync(n int64, s driver.Stream) (driver.DevicePtr, error) {
	if s == 0 {
		return 0, badHandle("AllocAsync", "stream", 0)
	}
	return d.alloc("AllocAsync", n, s)
}

// alloc reserves n bytes, in stream order if s is a stream.
func (d *device) alloc(method string, n int64, s driver.Stream) (driver.DevicePtr, error) {
	if n <= 0 {
		return 0, failure(method, driver.CodeInvalidValue, "n is %d, must be positive", n)
	}
	if err := d.begin(method); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if s != 0 {
		st := d.streams[s]
		if st == nil {
			return 0, badHandle(method, "stream", uintptr(s))
		}
		if err := st.refuse(method); err != nil {
			return 0, err
		}
	}
	b, ok := d.memory.reserve(n, s != 0)
	if !ok {
		m := &d.memory
		return 0, failure(method, driver.CodeOutOfMemory, "out of memory: n is %d bytes, free are %d of %d, %d are in the pool",
			n, m.total-m.used-m.pooled, m.total, m.pooled)
	}
	// Making the bytes may take long, and nobody knows the address yet.
	d.mu.Unlock()
	bytes := make([]byte, roundUp(n))[:n:n] // the size class gives the alignment
	if d.config.Late {
		fill(bytes, 0xFF)
	}
	d.mu.Lock()
	b.bytes = bytes
	return b.base, nil
}

// Free does not wait. Work still queued that uses the memory will fail with an illegal address.
func (d *device) Free(p driver.DevicePtr) error {
	if err := d.beginRelease("Free"); err != nil {
		return err
	}
	b := d.memory.at(p)
	if b == nil {
		return d.endRelease(failure("Free", driver.CodeInvalidValue, "no memory allocated at %#x", p))
	}
	d.memory.remove(b, false)
	return d.endRelease(nil)
}

func (d *device) FreeAsync(p driver.DevicePtr, s driver.Stream) error {
	if err := d.beginRelease("FreeAsync"); err != nil {
		return err
	}
	st, b := d.streams[s], d.memory.at(p)
	if st == nil {
		return d.endRelease(badHandle("FreeAsync", "stream", uintptr(s)))
	}
	if b == nil || !b.async || b.leaving {
		return d.endRelease(failure("FreeAsync", driver.CodeInvalidValue, "no memory of AllocAsync at %#x", p))
	}
	if st.capture != nil {
		return d.endRelease(st.refuse("FreeAsync"))
	}
	b.leaving = true
	d.issue(st, operation{kind: opFree, block: b, n: int64(len(b.bytes))})
	return d.endRelease(nil)
}

func (d *device) TrimPool(keep int64) error {
	if keep < 0 {
		return failure("TrimPool", driver.CodeInvalidValue, "keep is %d, must not be negative", keep)
	}
	if err := d.begin("TrimPool"); err != nil {
		return err
	}
	d.memory.pooled = min(d.memory.pooled, keep)
	d.mu.Unlock()
	return nil
}

// NewStream ignores the priority.
func (d *device) NewStream(priority int) (driver.Stream, error) {
	if err := d.begin("NewStream"); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	s := newStream(d.core)
	d.streams[s.id] = s
	return s.id, nil
}

func (d *device) DestroyStream(s driver.Stream) error {
	if err := d.beginRelease("DestroyStream"); err != nil {
		return err
	}
	st := d.streams[s]
	if st == nil {
		return d.endRelease(badHandle("DestroyStream", "stream", uintptr(s)))
	}
	delete(d.streams, s)
	if st.completed < st.issued {
		st.orphan = true
		d.orphans[st] = struct{}{}
	}
	return d.endRelease(nil)
}

// Close waits for queued work, if this is the last Device of its ordinal, and returns the device's sticky
// error.
func (d *device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	if !d.driver.leave(d.core) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return asError(d.failed)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.streams {
		s.reach(s.issued)
	}
	for {
		var s *stream
		for s = range d.orphans {
			break
		}
		if s == nil {
			break
		}
		s.reach(s.issued)
		delete(d.orphans, s)
	}
	// What the caller did not release goes with the device, as with a CUDA context.
	d.memory.blocks, d.streams, d.events = nil, nil, nil
	d.modules, d.functions, d.graphs = nil, nil, nil
	return asError(d.failed)
}
