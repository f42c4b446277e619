package asynccopy

// This file has the cache of device memory: what was freed and waits to be used again, without a call to the
// driver.
//
// Memory freed on a stream is used there again at once: the new work comes behind the old. On other streams it is
// used when the work before the free is known to be complete, which the stream's clock tells without asking.
// A driver that allocates in stream order has a pool that does the same, in about a microsecond a call and with no
// limit of size: so only small memory is kept here then, which goes with small copies. For other drivers
// everything is.

import (
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/pintensor/pin/internal/driver"
)

const (
	largestKept = 1 << 20  // of what is kept beside a driver's pool, in bytes
	mostKept    = 64 << 20 // beside a driver's pool in all

	unknown = math.MaxInt64 // a tick that is never seen
)

// memory is a device's memory in stream order. Its methods may be called concurrently.
type memory struct {
	dev    *Device
	pooled bool  // the driver allocates in stream order
	limit  int64 // of lent and cached bytes, 0 for none

	mu     sync.Mutex
	bins   map[int64]*bin // by size
	lent   Usage          // in bytes, rounded
	cached int64
}

// bin has freed memory of one size.
type bin struct{ lanes []lane }

// lane has what was freed on one stream, newest last.
type lane struct {
	stream *Stream
	free   []freed
}

// freed is memory that may be used by work on its lane's stream at once, and by all when the stream was seen at
// tick.
type freed struct {
	ptr  driver.DevicePtr
	tick int64
}

// class rounds a size up so that others can use the memory: to 512 bytes, and by no more than an eighth.
func (m *memory) class(n int64) int64 {
	if m.pooled && n > largestKept {
		return n
	}
	step := int64(512)
	if n > 4096 {
		step = max(step, 1<<(bits.Len64(uint64(n-1))-4))
	}
	return (n + step - 1) / step * step
}

// take returns cached memory of a size that work on s may use at once: what was freed on s last, or else what was
// freed on another stream first, if it is complete.
func (m *memory) take(size int64, s *Stream) (driver.DevicePtr, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bins[size]
	if b == nil {
		return 0, false
	}
	for i := range b.lanes {
		if l := &b.lanes[i]; l.stream == s && len(l.free) > 0 {
			f := l.free[len(l.free)-1]
			l.free = l.free[:len(l.free)-1]
			m.lend(size)
			return f.ptr, true
		}
	}
	for i := range b.lanes {
		l := &b.lanes[i]
		seen := l.stream.seen.Load()
		for k, f := range l.free[:min(len(l.free), 4)] {
			if f.tick <= seen {
				l.free = slices.Delete(l.free, k, k+1)
				m.lend(size)
				return f.ptr, true
			}
		}
	}
	return 0, false
}

func (m *memory) lend(size int64) {
	m.cached -= size
	m.lent.add(size)
}

// keep caches memory that is lent, or reports that it is for the driver's pool.
func (m *memory) keep(f freed, size int64, s *Stream) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pooled && (size > largestKept || m.cached+size > mostKept) {
		return false
	}
	m.lent.add(-size)
	m.cached += size
	l := m.lane(size, s)
	l.free = append(l.free, f)
	return true
}

// lane returns the lane of a size and a stream. The lock is held.
func (m *memory) lane(size int64, s *Stream) *lane {
	b := m.bins[size]
	if b == nil {
		b = new(bin)
		m.bins[size] = b
	}
	for i := range b.lanes {
		if b.lanes[i].stream == s {
			return &b.lanes[i]
		}
	}
	b.lanes = append(b.lanes, lane{stream: s})
	return &b.lanes[len(b.lanes)-1]
}

// restore puts memory back that could not be given up.
func (m *memory) restore(size int64, s *Stream, list []freed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lane(size, s)
	l.free = append(l.free, list...)
}

// forget takes cached memory out of the accounts.
func (m *memory) forget(size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cached -= size
}

// leave takes away what was freed on s, which is about to be destroyed. If s is idle the device's own stream gets
// it, which may then use it at once, as all may. Otherwise it is given up behind the work on s.
func (m *memory) leave(s *Stream, idle bool) error {
	var errs []error
	for size, list := range m.withdraw(s) {
		for i, f := range list {
			if idle {
				list[i].tick = 0
				continue
			}
			err := m.dev.fail(m.giveUp(f.ptr, s))
			errs = append(errs, err)
			if err != nil && !sticky(err) {
				m.restore(size, s, list[i:])
				break
			}
			m.forget(size)
		}
		if idle {
			m.restore(size, m.dev.own, list)
		}
	}
	return distinct(errs)
}

// withdraw takes the lanes of s out, by size.
func (m *memory) withdraw(s *Stream) map[int64][]freed {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[int64][]freed)
	for size, b := range m.bins {
		b.lanes = slices.DeleteFunc(b.lanes, func(l lane) bool {
			if l.stream == s && len(l.free) > 0 {
				out[size] = l.free
			}
			return l.stream == s
		})
	}
	return out
}

// usage returns what is lent and what is cached.
func (m *memory) usage() (lent Usage, cached int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lent, m.cached
}
