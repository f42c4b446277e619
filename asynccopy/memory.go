package asynccopy

// This file has the device memory that tensors are made of.
//
// Where the driver allocates in stream order its pool is the cache: memory freed on a stream is reusable
// there at once, and elsewhere when the work before the free is complete. For drivers without that, cached
// does the same with lists of its own.

import (
	"errors"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// memory is device memory in stream order. Methods may be called concurrently.
type memory interface {
	// alloc returns n > 0 bytes for work that is issued to s from now on.
	alloc(n int64, s *Stream) (driver.DevicePtr, error)
	// free takes back what alloc returned for n, once the work issued to s so far is complete.
	free(p driver.DevicePtr, n int64, s *Stream) error
	// trim gives what is free to the device, waiting for work where it must.
	trim() error
	// close is trim for the last time: everything is free and no work is left.
	close() error
}

// newMemory chooses by trying.
func newMemory(d *Device) (memory, error) {
	p, err := d.drv.AllocAsync(1, d.own.handle)
	switch {
	case err == nil:
		return pooled{d}, d.fail(d.retry(func() error { return d.drv.FreeAsync(p, d.own.handle) }))
	case errors.Is(err, driver.ErrNotSupported):
		return &cached{dev: d, spare: make(map[int64][]freed)}, nil
	}
	return nil, d.fail(err)
}

// pooled is the driver's pool.
type pooled struct{ dev *Device }

func (m pooled) alloc(n int64, s *Stream) (driver.DevicePtr, error) {
	p, err := m.dev.drv.AllocAsync(n, s.handle)
	return p, m.dev.fail(err)
}

func (m pooled) free(p driver.DevicePtr, _ int64, s *Stream) error {
	return m.dev.fail(m.dev.drv.FreeAsync(p, s.handle))
}

func (m pooled) trim() error  { return m.dev.fail(m.dev.drv.TrimPool(0)) }
func (m pooled) close() error { return nil } // the pool goes with the device

// cached keeps freed memory by size. Sizes are rounded up so that others can use it: to 512 bytes, and by
// no more than an eighth.
type cached struct {
	dev *Device

	mu    sync.Mutex
	spare map[int64][]freed // by rounded size, oldest first; what was looked at too early goes to the end
}

// freed is memory that may be used by work on stream at once, and by all when done is complete.
type freed struct {
	ptr    driver.DevicePtr
	stream *Stream
	done   driver.Event
}

func rounded(n int64) int64 {
	step := int64(512)
	if n > 4096 {
		step = max(step, 1<<(bits.Len64(uint64(n-1))-4))
	}
	return (n + step - 1) / step * step
}

func (m *cached) alloc(n int64, s *Stream) (driver.DevicePtr, error) {
	size := rounded(n)
	if f, ok := m.take(size, s); ok {
		m.dev.putEvent(f.done)
		return f.ptr, nil
	}
	if f, ok := m.take(size, nil); ok {
		if done, err := m.dev.drv.Query(f.done); err == nil && done {
			m.dev.putEvent(f.done)
			return f.ptr, nil
		}
		m.put(size, f)
	}
	p, err := m.dev.drv.Alloc(size)
	return p, m.dev.fail(err)
}

// take removes the newest memory of a size that was freed on s, or the oldest if s is nil.
func (m *cached) take(size int64, s *Stream) (freed, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.spare[size]
	at := len(list) - 1
	if s == nil {
		at = min(at, 0)
	}
	for s != nil && at >= 0 && list[at].stream != s {
		at--
	}
	if at < 0 {
		return freed{}, false
	}
	f := list[at]
	m.spare[size] = append(list[:at], list[at+1:]...)
	return f, true
}

func (m *cached) put(size int64, f freed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spare[size] = append(m.spare[size], f)
}

func (m *cached) free(p driver.DevicePtr, n int64, s *Stream) error {
	h, err := m.dev.takeEvent()
	if err != nil {
		return err
	}
	if err := m.dev.drv.Record(h, s.handle); err != nil {
		m.dev.putEvent(h)
		return m.dev.fail(err)
	}
	m.put(rounded(n), freed{ptr: p, stream: s, done: h})
	return nil
}

func (m *cached) trim() error {
	m.mu.Lock()
	all := m.spare
	m.spare = make(map[int64][]freed)
	m.mu.Unlock()
	var errs []error
	for size, list := range all {
		for _, f := range list {
			if err := m.release(f); err != nil {
				errs = append(errs, err)
				m.put(size, f)
			}
		}
	}
	return distinct(errs)
}

// release gives memory to the device. On a device that is lost it can no longer be in use.
func (m *cached) release(f freed) error {
	d := m.dev
	err := d.fail(d.drv.SyncEvent(f.done))
	if err != nil && !sticky(err) {
		return err
	}
	if err := d.fail(d.drv.Free(f.ptr)); err != nil && !sticky(err) {
		return err
	}
	d.putEvent(f.done)
	return err
}

func (m *cached) close() error {
	err := m.trim()
	if err != nil && !sticky(err) {
		return distinct([]error{err, m.trim()}) // nobody comes later to try again
	}
	return err
}

// alloc returns n bytes for work on s, or nothing if n is 0. Before it reports that there are none it
// awaits pending work and trims, and then also has the collector look for tensors that were dropped.
func (d *Device) alloc(n int64, s *Stream) (driver.DevicePtr, error) {
	if n == 0 {
		return 0, nil
	}
	d.freeLimbo()
	p, err := d.memory.alloc(n, s)
	for attempt := 0; attempt < 3 && errors.Is(err, ErrOutOfMemory); attempt++ {
		d.counts.retries.Add(1)
		if attempt > 0 {
			collect()
			d.freeLimbo()
		}
		if failed := errors.Join(d.awaitAll(), d.memory.trim()); failed != nil {
			return 0, distinct([]error{err, failed})
		}
		p, err = d.memory.alloc(n, s)
	}
	return p, err
}

// collect runs the collector, then waits until a cleanup of its own has run, at most 100 ms. Cleanups run
// side by side, so those of tensors that it found may still be to come: alloc tries more than once.
func collect() {
	ran := make(chan struct{})
	runtime.AddCleanup(new([16]byte), func(ran chan struct{}) { close(ran) }, ran)
	runtime.GC()
	select {
	case <-ran:
	case <-time.After(100 * time.Millisecond):
	}
}
