package drivertest

// This file has the conformance tests of device memory.

import (
	"errors"

	"github.com/pintensor/pin/internal/driver"
)

// sizes returns how much memory to allocate so that MemInfo shows it, and how much of it other programs,
// such as tests of other packages, may take or give back meanwhile: MemInfo is about the whole device.
func (r *rig) sizes() (n, others int64) {
	free, total, err := r.dev.MemInfo()
	r.ok(err)
	if free <= 0 || total < free {
		r.Fatalf("MemInfo: %d free of %d", free, total)
	}
	n = total / 8 &^ 255
	return n, n / 2
}

func (r *rig) freeBytes() int64 {
	free, _, err := r.dev.MemInfo()
	r.ok(err)
	return free
}

func testAllocFree(r *rig) {
	n, others := r.sizes()
	free := r.freeBytes()
	p, err := r.dev.Alloc(n)
	r.ok(err)
	q, err := r.dev.Alloc(1)
	r.ok(err)
	if p%256 != 0 || q%256 != 0 {
		r.Errorf("addresses %#x and %#x, want multiples of 256", p, q)
	}
	if q >= p && q < p+driver.DevicePtr(n) {
		r.Errorf("allocations overlap: %d bytes at %#x, and %#x", n, p, q)
	}
	during := r.freeBytes()
	if during > free-n+others {
		r.Errorf("%d bytes free with %d allocated, %d before", during, n, free)
	}
	r.ok(r.dev.Free(p))
	r.ok(r.dev.Free(q))
	if after := r.freeBytes(); after < during+n-others {
		r.Errorf("%d bytes free when all is freed, %d before that", after, during)
	}
}

func testOutOfMemory(r *rig) {
	s := r.stream()
	_, total, err := r.dev.MemInfo()
	r.ok(err)
	for range 3 {
		if p, err := r.dev.Alloc(total + 1); !errors.Is(err, driver.ErrOutOfMemory) {
			r.Fatalf("Alloc of more than there is: %#x, %v; want ErrOutOfMemory", p, err)
		}
		p, err := r.dev.AllocAsync(total+1, s)
		if !errors.Is(err, driver.ErrOutOfMemory) && !errors.Is(err, driver.ErrNotSupported) {
			r.Fatalf("AllocAsync of more than there is: %#x, %v; want ErrOutOfMemory", p, err)
		}
		r.roundTrip(s)
	}
}

// roundTrip shows that the device works.
func (r *rig) roundTrip(s driver.Stream) {
	r.Helper()
	p, err := r.dev.Alloc(1000)
	r.ok(err)
	want, got := make([]byte, 1000), make([]byte, 1000)
	pattern(want, 1)
	r.upload(p, want, s, 0)
	r.download(got, p, s, 0)
	r.ok(r.dev.SyncStream(s))
	r.equal("round trip", got, want)
	r.ok(r.dev.Free(p))
}

func testAllocAsync(r *rig) {
	s := r.stream()
	done := r.event()
	first, err := r.dev.AllocAsync(1, s)
	if errors.Is(err, driver.ErrNotSupported) {
		r.ok(r.dev.TrimPool(0))
		r.Skip("the device has no stream-ordered allocation")
	}
	r.ok(err)
	r.ok(r.dev.FreeAsync(first, s))

	const n = 1 << 20
	want, got := r.pinned(n), r.pinned(n)
	for round := range 20 {
		pattern(want, round)
		clear(got)
		p, err := r.dev.AllocAsync(n, s)
		r.ok(err)
		r.upload(p, want, s, 0)
		r.download(got, p, s, done)
		r.ok(r.dev.FreeAsync(p, s)) // before the copies have run, perhaps
		r.ok(r.dev.SyncEvent(done))
		r.equal("memory freed behind its last use", got, want)
	}
	r.ok(r.dev.SyncStream(s))
	r.ok(r.dev.TrimPool(0))
	large, others := r.sizes()
	free := r.freeBytes()
	big, err := r.dev.AllocAsync(large, s)
	r.ok(err)
	r.ok(r.dev.FreeAsync(big, s))
	r.ok(r.dev.SyncStream(s))
	r.ok(r.dev.TrimPool(0))
	if after := r.freeBytes(); after < free-others {
		r.Errorf("%d bytes free when %d are freed and the pool is trimmed, %d before", after, large, free)
	}

	// Free takes memory of AllocAsync too.
	p, err := r.dev.AllocAsync(n, s)
	r.ok(err)
	r.ok(r.dev.SyncStream(s))
	r.ok(r.dev.Free(p))
}
