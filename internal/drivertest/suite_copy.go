package drivertest

// This file has the conformance tests of copies and fills.

import (
	"bytes"
	"fmt"

	"github.com/pintensor/pin/internal/driver"
)

var copySizes = []int{1, 3, 255, 256, 4097, 64 << 10, 1 << 20, 3<<20 + 5}

// testCopies copies between places that are not aligned, and looks at the bytes beside them.
func testCopies(r *rig) {
	const most, edge = 3<<20 + 5, 16
	a, b := r.memory(most+2*edge), r.memory(most+2*edge)
	src, dst := r.pinned(most+2*edge), r.pinned(most+2*edge)
	s, done := r.stream(), r.event()
	for i, n := range copySizes {
		for j, offset := range []int{0, 1, 13} {
			pattern(src, 10*i+j)
			clear(dst)
			r.ok(r.dev.Memset(a, 0xEE, most+2*edge, s, 0))
			r.upload(a+driver.DevicePtr(offset), src[edge-offset:][:n], s, 0)
			r.ok(r.dev.CopyDtoD(b, a, int64(n+2*edge), s, 0))
			r.download(dst[:n+2*edge], b, s, done)
			r.ok(r.dev.SyncEvent(done))
			want := bytes.Repeat([]byte{0xEE}, n+2*edge)
			copy(want[offset:], src[edge-offset:][:n])
			r.equal(fmt.Sprintf("%d bytes at offset %d", n, offset), dst[:n+2*edge], want)
			if dst[n+2*edge:][:1][0] != 0 && n != most {
				r.Fatalf("%d bytes at offset %d: copied too much", n, offset)
			}
		}
	}
}

func testPageable(r *rig) {
	const n = 1<<20 + 3
	p := r.memory(n)
	s, done := r.stream(), r.event()
	src, dst := make([]byte, n), make([]byte, n)
	for round := range 3 {
		pattern(src, round)
		r.upload(p, src, s, done)
		r.ok(r.dev.SyncEvent(done))
		r.download(dst, p, s, done)
		r.ok(r.dev.SyncEvent(done))
		r.equal("pageable memory", dst, src)
	}
}

// testCopyNothing copies nothing to nowhere, which still records the event, behind earlier work.
func testCopyNothing(r *rig) {
	const n = 1 << 20
	p, b := r.memory(n), r.pinned(n)
	s, done := r.stream(), r.event()
	r.ok(r.dev.CopyHtoD(0, nil, 0, s, 0))
	for i, issue := range []func() error{
		func() error { return r.dev.CopyHtoD(0, nil, 0, s, done) },
		func() error { return r.dev.CopyDtoH(nil, 0, 0, s, done) },
		func() error { return r.dev.CopyDtoD(0, 0, 0, s, done) },
		func() error { return r.dev.Memset(0, 0, 0, s, done) },
	} {
		r.ok(r.dev.Memset(p, byte(i+1), n, s, 0))
		r.download(b, p, s, 0)
		r.ok(issue())
		r.ok(r.dev.SyncEvent(done))
		r.equal("what came before", b, bytes.Repeat([]byte{byte(i + 1)}, n))
	}
}

func testMemset(r *rig) {
	const n = 100003
	p, got := r.memory(n), r.pinned(n)
	s, done := r.stream(), r.event()
	want := make([]byte, n)
	r.ok(r.dev.Memset(p, 0, n, s, 0))
	for _, part := range []struct {
		from, to int
		value    byte
	}{{0, n, 0xA5}, {1, 2, 0}, {77, 99991, 0xFF}, {n - 1, n, 1}} {
		for i := part.from; i < part.to; i++ {
			want[i] = part.value
		}
		r.ok(r.dev.Memset(p+driver.DevicePtr(part.from), part.value, int64(part.to-part.from), s, 0))
	}
	r.download(got, p, s, done)
	r.ok(r.dev.SyncEvent(done))
	r.equal("fill", got, want)
}
