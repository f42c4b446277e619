package asynccopy

// This file has the device memory that tensors are made of: how it is found, and what is tried before there is
// none.

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// newMemory finds out, by trying, whether the driver allocates in stream order.
func newMemory(d *Device, limit int64) (*memory, error) {
	m := &memory{dev: d, limit: limit, bins: make(map[int64]*bin)}
	p, err := d.drv.AllocAsync(1, d.own.handle)
	switch {
	case err == nil:
		m.pooled = true
		return m, d.fail(d.retry(func() error { return d.drv.FreeAsync(p, d.own.handle) }))
	case errors.Is(err, driver.ErrNotSupported):
		return m, nil
	}
	return nil, d.fail(err)
}

// alloc returns n > 0 bytes for work that is issued to s from now on.
func (m *memory) alloc(n int64, s *Stream) (driver.DevicePtr, error) {
	size := m.class(n)
	p, ok := m.take(size, s)
	if ok {
		return p, nil
	}
	if err := m.reserve(size); err != nil {
		return 0, err
	}
	var err error
	if m.pooled {
		p, err = m.dev.drv.AllocAsync(size, s.handle)
	} else {
		p, err = m.dev.drv.Alloc(size)
	}
	if err != nil {
		m.unreserve(size)
	}
	return p, m.dev.fail(err)
}

// reserve counts memory that is about to be asked of the driver.
func (m *memory) reserve(size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limit > 0 && size > m.limit-m.lent.Current-m.cached {
		return fmt.Errorf("asynccopy: %d bytes are wanted, %d are lent of the %d that WithDeviceLimit allows: %w",
			size, m.lent.Current, m.limit, ErrOutOfMemory)
	}
	m.lent.add(size)
	return nil
}

func (m *memory) unreserve(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lent.add(-size)
}

// free takes back what alloc returned for n, once the work issued to s so far is complete: elsewhere than on s it
// may be used when the clock of s was seen at tick, or never if that is unknown.
func (m *memory) free(p driver.DevicePtr, n int64, s *Stream, tick int64) error {
	size := m.class(n)
	if m.keep(freed{p, tick}, size, s) {
		return nil
	}
	err := m.dev.fail(m.dev.drv.FreeAsync(p, s.handle))
	if err == nil || sticky(err) { // on a device that is lost nothing can be freed, nor is left
		m.unreserve(size)
	}
	return err
}

// close is flush for the last time: nobody comes later to try again. The device's own stream is open, others are
// not.
func (m *memory) close() error {
	err := m.flush()
	if err != nil && !sticky(err) {
		return distinct([]error{err, m.flush()})
	}
	return err
}

// flush gives what is cached to the driver. A driver without a pool may have to wait for work that uses it.
func (m *memory) flush() error {
	m.mu.Lock()
	all := m.bins
	m.bins = make(map[int64]*bin)
	m.mu.Unlock()
	var errs []error
	for size, b := range all {
		for _, l := range b.lanes {
			for i, f := range l.free {
				err := m.dev.fail(m.giveUp(f.ptr, l.stream))
				if err != nil {
					errs = append(errs, err)
				}
				if err != nil && !sticky(err) {
					m.restore(size, l.stream, l.free[i:])
					break
				}
				m.forget(size)
			}
		}
	}
	return distinct(errs)
}

// giveUp frees memory behind the work on the stream where it was freed. Of a stream that is closed it is complete.
func (m *memory) giveUp(p driver.DevicePtr, s *Stream) error {
	drv := m.dev.drv
	open := s.exists.enter()
	if open {
		defer s.exists.leave()
	}
	switch {
	case !m.pooled && open:
		if err := drv.SyncStream(s.handle); err != nil && !sticky(err) {
			return err
		}
		return drv.Free(p)
	case !m.pooled:
		return drv.Free(p)
	case open:
		return drv.FreeAsync(p, s.handle)
	}
	return drv.FreeAsync(p, m.dev.own.handle)
}

// trim gives what is free to the device, waiting for work where it must.
func (d *Device) trim() error {
	if err := errors.Join(d.awaitAll(), d.memory.flush()); err != nil || !d.memory.pooled {
		return err
	}
	if err := d.awaitAll(); err != nil { // the pool has what was freed on a stream when that was synchronised
		return err
	}
	return d.fail(d.drv.TrimPool(0))
}

// Trim gives the device memory that d keeps for later back to the driver and other programs, as PyTorch's
// empty_cache does. It waits until the work issued so far is complete. Allocations take longer for a while.
func (d *Device) Trim() error {
	if d.missing() {
		return d.errNoDevice("Trim")
	}
	if !d.gate.enter() {
		return d.closedError("Trim")
	}
	defer d.gate.leave()
	if err := d.failure(); err != nil {
		return err
	}
	d.watchAll()
	d.freeLimbo()
	return distinct([]error{d.trim()})
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
			d.watchAll()
			collect()
			d.freeLimbo()
		}
		if failed := d.trim(); failed != nil {
			return 0, distinct([]error{err, failed})
		}
		p, err = d.memory.alloc(n, s)
	}
	return p, err
}

// collect runs the collector, then waits until a cleanup of its own has run, at most 100 ms. Finalizers of tensors
// that it found may still be to come: alloc tries more than once.
func collect() {
	ran := make(chan struct{})
	runtime.AddCleanup(new([16]byte), func(ran chan struct{}) { close(ran) }, ran)
	runtime.GC()
	select {
	case <-ran:
	case <-time.After(100 * time.Millisecond):
	}
}
