package drivertest

// This file has the conformance tests of captures and graphs.

import (
	"bytes"
	"errors"
	"runtime"

	"github.com/pintensor/pin/internal/driver"
)

// capture returns what issue issues to s as a graph, which is destroyed when the test ends.
func (r *rig) capture(s driver.Stream, issue func()) driver.Graph {
	r.Helper()
	err := r.dev.BeginCapture(s)
	if errors.Is(err, driver.ErrNotSupported) {
		r.Skip("the device has no graphs")
	}
	r.ok(err)
	issue()
	g, err := r.dev.EndCapture(s)
	r.ok(err)
	r.Cleanup(func() { r.ok(r.dev.DestroyGraph(g)) })
	return g
}

// testGraph captures a step with every kind of work in it, and launches it with other contents each time.
func testGraph(r *rig) {
	const n = 5000
	f := r.kernel("axpy")
	x, y, z := r.memory(4*n), r.memory(4*n), r.memory(4*n)
	in, out := r.pinned(4*n), r.pinned(4*n)
	s, done := r.stream(), r.event()
	floats(in, func(int) float32 { return -1 })
	clear(out)
	r.ok(r.dev.Memset(z, 0, 4*n, s, 0))
	g := r.capture(s, func() {
		r.upload(x, in, s, 0)
		r.ok(r.dev.Memset(y, 0, 4*n, s, 0))
		r.axpy(f, y, x, 3, n, s)
		r.axpy(f, z, y, 1, n, s) // z is the sum over the launches
		r.ok(r.dev.CopyDtoD(y, z, 4*n, s, 0))
		r.download(out, y, s, 0)
	})
	r.ok(r.dev.SyncStream(s))
	r.checkFloats("captured, not launched", out, func(int) float32 { return 0 })
	sum := float32(0)
	for round := range 4 {
		floats(in, func(i int) float32 { return float32(round * i) })
		sum += 3 * float32(round)
		r.ok(r.dev.LaunchGraph(g, s))
		r.ok(r.dev.Record(done, s))
		r.ok(r.dev.SyncEvent(done))
		r.checkFloats("launched", out, func(i int) float32 { return sum * float32(i) })
	}
}

// testGraphInOrder launches a graph on two streams that don't wait for each other: its launches do.
func testGraphInOrder(r *rig) {
	const n, rounds = 1 << 16, 20
	f := r.kernel("axpy")
	x, y := r.memory(4*n), r.memory(4*n)
	in, out := r.pinned(4*n), r.pinned(4*n)
	floats(in, func(i int) float32 { return float32(i % 100) })
	a, b := r.stream(), r.stream()
	r.upload(x, in, a, 0)
	r.ok(r.dev.Memset(y, 0, 4*n, a, 0))
	r.ok(r.dev.SyncStream(a))
	g := r.capture(a, func() { r.axpy(f, y, x, 1, n, a) })
	for range rounds {
		r.ok(r.dev.LaunchGraph(g, a))
		r.ok(r.dev.LaunchGraph(g, b))
	}
	r.ok(r.dev.SyncStream(a))
	r.ok(r.dev.SyncStream(b))
	r.download(out, y, a, 0)
	r.ok(r.dev.SyncStream(a))
	r.checkFloats("sum", out, func(i int) float32 { return 2 * rounds * float32(i%100) })
}

func testEmptyGraph(r *rig) {
	s := r.stream()
	g := r.capture(s, func() {})
	r.ok(r.dev.LaunchGraph(g, s))
	r.roundTrip(s)
}

// testBranches captures two chains that depend on what comes before them, each by itself, and something that depends
// on both; and what depends on nothing.
func testBranches(r *rig) {
	const n, rounds = 1 << 16, 5
	f := r.kernel("axpy")
	x, y, z, alone := r.memory(4*n), r.memory(4*n), r.memory(4*n), r.memory(4*n)
	in, out, lonely := r.pinned(4*n), r.pinned(4*n), r.pinned(4*n)
	s := r.stream()
	dependencies := func(want int) []driver.Node {
		r.Helper()
		nodes, err := r.dev.CaptureDependencies(s, nil)
		if errors.Is(err, driver.ErrNotSupported) {
			r.Skip("captures are chains")
		}
		r.ok(err)
		if len(nodes) != want {
			r.Fatalf("%d dependencies, want %d", len(nodes), want)
		}
		return nodes
	}
	g := r.capture(s, func() {
		dependencies(0)
		r.upload(x, in, s, 0)
		first := dependencies(1)
		r.ok(r.dev.Memset(y, 0, 4*n, s, 0))
		r.axpy(f, y, x, 2, n, s)
		left := dependencies(1)
		r.ok(r.dev.SetCaptureDependencies(s, first))
		if again := dependencies(1); again[0] != first[0] {
			r.Fatalf("the dependency is %#x, want %#x, which was set", again[0], first[0])
		}
		r.ok(r.dev.Memset(z, 0, 4*n, s, 0))
		r.axpy(f, z, x, 3, n, s)
		r.ok(r.dev.SetCaptureDependencies(s, append(dependencies(1), left...)))
		dependencies(2)
		r.axpy(f, y, z, 1, n, s)
		r.download(out, y, s, 0)
		r.ok(r.dev.SetCaptureDependencies(s, nil))
		dependencies(0)
		r.ok(r.dev.Memset(alone, 7, 4*n, s, 0))
		r.download(lonely, alone, s, 0)
	})
	for round := range rounds {
		floats(in, func(i int) float32 { return float32(round + i%100) })
		clear(lonely)
		r.ok(r.dev.LaunchGraph(g, s))
		r.ok(r.dev.SyncStream(s)) // waits for all of it
		r.checkFloats("both branches", out, func(i int) float32 { return 5 * float32(round+i%100) })
		r.equal("the rest", lonely, bytes.Repeat([]byte{7}, 4*n))
	}
}

// testDependenciesOutside asks for what only a capture has.
func testDependenciesOutside(r *rig) {
	s := r.stream()
	if nodes, err := r.dev.CaptureDependencies(s, nil); err == nil || len(nodes) > 0 {
		r.Errorf("CaptureDependencies of what is not captured: %v, %v", nodes, err)
	}
	if err := r.dev.SetCaptureDependencies(s, nil); err == nil {
		r.Error("SetCaptureDependencies of what is not captured returned no error")
	}
	r.roundTrip(s)
}

// testDestroyBusyGraph destroys a graph that is running.
func testDestroyBusyGraph(r *rig) {
	const n = 1 << 20
	p, out := r.memory(n), r.pinned(n)
	s := r.stream()
	r.ok(r.dev.BeginCapture(s))
	for i := range 50 {
		r.ok(r.dev.Memset(p, byte(i), n, s, 0))
	}
	r.download(out, p, s, 0)
	g, err := r.dev.EndCapture(s)
	r.ok(err)
	r.ok(r.dev.LaunchGraph(g, s))
	r.ok(r.dev.DestroyGraph(g))
	r.ok(r.dev.SyncStream(s))
	for i, got := range out {
		if got != 49 {
			r.Fatalf("byte %d is %d, want 49", i, got)
		}
	}
}

// testCaptureDisturbsNobody does everything that a capture might forbid others, and ends it on another thread.
func testCaptureDisturbsNobody(r *rig) {
	const n = 1 << 16
	p, out, s := r.memory(n), r.pinned(n), r.stream()
	r.ok(r.dev.BeginCapture(s))
	r.ok(r.dev.Memset(p, 5, n, s, 0))
	other, e := r.stream(), r.event()
	q, in := r.memory(n), r.pinned(n) // allocated and page-locked now
	pattern(in, 1)
	r.upload(q, in, other, e)
	r.ok(r.dev.SyncEvent(e))
	r.poll(e)
	r.roundTrip(other)
	f := r.kernel("spin")
	r.ok(r.dev.Launch(f, ones(1), ones(1), 0, other, []uint64{0}))
	r.ok(r.dev.SyncStream(other))
	var g driver.Graph
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // and so not on the thread that began it; which ends with the goroutine
		err := r.dev.Memset(p, 6, n/2, s, 0)
		if err == nil {
			g, err = r.dev.EndCapture(s)
		}
		ended <- err
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.ok(<-ended)
	r.Cleanup(func() { r.ok(r.dev.DestroyGraph(g)) })
	r.ok(r.dev.LaunchGraph(g, s))
	r.download(out, p, s, 0)
	r.ok(r.dev.SyncStream(s))
	r.equal("first half", out[:n/2], bytes.Repeat([]byte{6}, n/2))
	r.equal("second half", out[n/2:], bytes.Repeat([]byte{5}, n/2))
}

func testSpoiltCapture(r *rig) {
	const n = 1 << 16
	p, s, other := r.memory(n), r.stream(), r.stream()
	r.ok(r.dev.BeginCapture(s))
	r.ok(r.dev.Memset(p, 1, n, s, 0))
	r.roundTrip(other) // other streams are not concerned
	r.code("SyncStream of a stream that is captured", r.dev.SyncStream(s), driver.CodeCaptureUnsupported)
	g, err := r.dev.EndCapture(s)
	r.code("EndCapture of a spoilt capture", err, driver.CodeCaptureInvalidated)
	if g != 0 {
		r.Errorf("EndCapture of a spoilt capture gave graph %#x", g)
	}
	r.roundTrip(s)
	if g, err := r.dev.EndCapture(s); err == nil || g != 0 {
		r.Errorf("EndCapture of what is not captured: %#x, %v, want an error", g, err)
	}
	r.roundTrip(s)
}

func testBadGraphs(r *rig) {
	s := r.stream()
	g := r.capture(s, func() {})
	r.code("BeginCapture(0)", r.dev.BeginCapture(0), driver.CodeInvalidHandle)
	_, err := r.dev.EndCapture(0)
	r.code("EndCapture(0)", err, driver.CodeInvalidHandle)
	r.code("LaunchGraph(0, s)", r.dev.LaunchGraph(0, s), driver.CodeInvalidHandle)
	r.code("LaunchGraph(g, 0)", r.dev.LaunchGraph(g, 0), driver.CodeInvalidHandle)
	r.code("DestroyGraph(0)", r.dev.DestroyGraph(0), driver.CodeInvalidHandle)
	r.roundTrip(s)
}
