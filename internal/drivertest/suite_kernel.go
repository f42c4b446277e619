package drivertest

// This file has the conformance tests of kernels and times.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// kernel returns a function of Image, whose module is unloaded when the test ends.
func (r *rig) kernel(name string) driver.Function {
	r.Helper()
	m, err := r.dev.LoadModule(Image)
	r.ok(err)
	r.Cleanup(func() { r.ok(r.dev.UnloadModule(m)) })
	f, err := r.dev.Function(m, name)
	r.ok(err)
	return f
}

func ones(n int) driver.Dim3 { return driver.Dim3{X: uint32(n)} }

// axpy launches axpy on s.
func (r *rig) axpy(f driver.Function, y, x driver.DevicePtr, a float32, n int, s driver.Stream) {
	r.Helper()
	args := []uint64{uint64(y), uint64(x), uint64(math.Float32bits(a)), uint64(n)}
	r.ok(r.dev.Launch(f, ones((n+255)/256), ones(256), 0, s, args))
	clear(args) // the launch has its own
}

// floats fills b with float32 values, and checkFloats compares them.
func floats(b []byte, value func(i int) float32) {
	for i := range len(b) / 4 {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(value(i)))
	}
}

func (r *rig) checkFloats(what string, b []byte, want func(i int) float32) {
	r.Helper()
	for i := range len(b) / 4 {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])); got != want(i) {
			r.Fatalf("%s: value %d of %d is %v, want %v", what, i, len(b)/4, got, want(i))
		}
	}
}

// testKernels launches kernels between copies, without waiting for any of it before the end.
func testKernels(r *rig) {
	const most = 100003
	f := r.kernel("axpy")
	x, y := r.memory(4*most), r.memory(4*most)
	hx, hy, out := r.pinned(4*most), r.pinned(4*most), r.pinned(4*most)
	floats(hx, func(i int) float32 { return float32(i % 1000) })
	floats(hy, func(i int) float32 { return 7 })
	s := r.stream()
	for _, n := range []int{1, 255, 256, 257, most} {
		r.upload(x, hx, s, 0)
		r.upload(y, hy, s, 0)
		r.axpy(f, y, x, 2, n, s)
		r.axpy(f, y, x, -0.5, n, s)
		r.download(out, y, s, 0)
		r.ok(r.dev.SyncStream(s))
		r.checkFloats(fmt.Sprintf("the first %d changed", n), out, func(i int) float32 {
			if i >= n {
				return 7
			}
			return 7 + 1.5*float32(i%1000)
		})
	}
}

func testKernelsAcrossStreams(r *rig) {
	const n, rounds = 4096, 20
	f := r.kernel("axpy")
	x, y := r.memory(4*n), r.memory(4*n)
	hx, out := r.pinned(4*n), r.pinned(4*n)
	floats(hx, func(i int) float32 { return float32(i) })
	a, b, e := r.stream(), r.stream(), r.event()
	r.upload(x, hx, a, 0)
	r.ok(r.dev.Memset(y, 0, 4*n, a, 0))
	for range rounds {
		r.axpy(f, y, x, 1, n, a)
		r.ok(r.dev.Record(e, a))
		r.ok(r.dev.WaitEvent(b, e))
		a, b = b, a
	}
	r.download(out, y, a, e)
	r.ok(r.dev.SyncEvent(e))
	r.checkFloats("sum", out, func(i int) float32 { return rounds * float32(i) })
}

func testModules(r *rig) {
	_, err := r.dev.LoadModule(driver.Image{})
	if !errors.Is(err, driver.ErrNotSupported) {
		r.Errorf("an image of nothing: %v, want ErrNotSupported", err)
	}
	_, err = r.dev.LoadModule(driver.Image{CUDA: []byte(".version 7.0\n.target sm_70\n.address_size 64\nnonsense")})
	var failed *driver.Error
	switch {
	case errors.Is(err, driver.ErrNotSupported): // a software device
	case errors.As(err, &failed) && failed.Code == driver.CodeInvalidPTX && strings.Contains(failed.Text, "line 4"):
	default:
		r.Errorf("PTX with an error in line 4: %v, want the compiler's words", err)
	}
	m, err := r.dev.LoadModule(Image)
	r.ok(err)
	_, err = r.dev.Function(m, "Axpy")
	r.code("a kernel that is not there", err, driver.CodeNotFound)
	for range 2 { // asking again is no mistake
		if f, err := r.dev.Function(m, "axpy"); err != nil || f == 0 {
			r.Errorf("a kernel that is there: %#x, %v", f, err)
		}
	}
	other, err := r.dev.LoadModule(Image) // is another
	r.ok(err)
	r.ok(r.dev.UnloadModule(m))
	spin, err := r.dev.Function(other, "spin")
	r.ok(err)
	s := r.stream()
	r.ok(r.dev.Launch(spin, ones(1), ones(1), 0, s, []uint64{0}))
	r.ok(r.dev.SyncStream(s))
	r.ok(r.dev.UnloadModule(other))
}

func testBadLaunches(r *rig) {
	f, s := r.kernel("spin"), r.stream()
	none := []uint64{0}
	launch := func(f driver.Function, grid, block driver.Dim3, s driver.Stream) error {
		return r.dev.Launch(f, grid, block, 0, s, none)
	}
	r.code("no function", launch(0, ones(1), ones(1), s), driver.CodeInvalidHandle)
	r.code("no stream", launch(f, ones(1), ones(1), 0), driver.CodeInvalidHandle)
	r.code("no blocks", launch(f, ones(0), ones(1), s), driver.CodeInvalidValue)
	r.code("no threads", launch(f, ones(1), ones(0), s), driver.CodeInvalidValue)
	r.code("a block of 1025 threads", launch(f, ones(1), driver.Dim3{X: 205, Y: 5}, s), driver.CodeInvalidValue)
	r.code("UnloadModule(0)", r.dev.UnloadModule(0), driver.CodeInvalidHandle)
	_, err := r.dev.Function(0, "spin")
	r.code("Function of no module", err, driver.CodeInvalidHandle)
	_, err = r.dev.Elapsed(0, r.timingEvent())
	r.code("Elapsed from no event", err, driver.CodeInvalidHandle)
	r.ok(launch(f, driver.Dim3{X: 2, Y: 3}, driver.Dim3{X: 4, Y: 4, Z: 64}, s))
	r.roundTrip(s)
}

func (r *rig) timingEvent() driver.Event {
	r.Helper()
	e, err := r.dev.NewTimingEvent()
	r.ok(err)
	r.Cleanup(func() { r.ok(r.dev.DestroyEvent(e)) })
	return e
}

func testTimes(r *rig) {
	const took = 2 * time.Millisecond
	f, s, other := r.kernel("spin"), r.stream(), r.stream()
	from, mid, to, never := r.timingEvent(), r.timingEvent(), r.timingEvent(), r.timingEvent()
	r.ok(r.dev.Record(from, s))
	r.ok(r.dev.Launch(f, ones(1), ones(1), 0, s, []uint64{uint64(took)}))
	r.ok(r.dev.Record(mid, s))
	r.ok(r.dev.WaitEvent(other, mid))
	r.ok(r.dev.CopyDtoH(nil, 0, 0, other, to)) // the event of a copy has a time too, and on another stream
	r.ok(r.dev.SyncEvent(to))
	elapsed := func(from, to driver.Event) time.Duration {
		r.Helper()
		d, err := r.dev.Elapsed(from, to)
		r.ok(err)
		return d
	}
	// Globaltimer, which spin asks, may advance in steps of a microsecond.
	if d := elapsed(from, mid); d < took-5*time.Microsecond {
		r.Errorf("a kernel that takes %v took %v", took, d)
	}
	if d := elapsed(from, to); d < elapsed(from, mid) {
		r.Errorf("what follows on another stream completed after %v, before %v", d, elapsed(from, mid))
	}
	if d := elapsed(mid, from); d >= 0 {
		r.Errorf("backwards: %v, want less than 0", d)
	}
	_, err := r.dev.Elapsed(from, never)
	r.code("to an event never recorded", err, driver.CodeInvalidHandle)
	plain := r.event()
	r.ok(r.dev.Record(plain, s))
	r.ok(r.dev.SyncEvent(plain))
	_, err = r.dev.Elapsed(from, plain)
	r.code("to an event without times", err, driver.CodeInvalidHandle)
}
