package asynccopy_test

// This file has what the tests run on: every kind of device, checked, with an engine of its own.

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// devices are the kinds of device that tests run on.
var devices = []struct {
	name   string
	driver func(t testing.TB) driver.Driver
}{
	{"soft", func(testing.TB) driver.Driver { return soft.New(soft.Config{Host: locking{}}) }},
	{"late", func(testing.TB) driver.Driver { return soft.New(soft.Config{Host: locking{}, Late: true}) }},
	{"plain", func(testing.TB) driver.Driver { return plain{soft.New(soft.Config{Host: locking{}, Late: true})} }},
	{"cuda", cuda},
}

func cuda(t testing.TB) driver.Driver {
	drv, err := asynccopy.LoadCUDA()
	if err == nil {
		var n int
		if n, err = drv.Devices(); err == nil && n == 0 {
			err = asynccopy.ErrUnavailable
		}
	}
	switch {
	case err == nil:
		return drv
	case os.Getenv("REQUIRE_GPU") == "1" || !errors.Is(err, asynccopy.ErrUnavailable):
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return nil
}

// locking is a host that has no limit to what it locks, so that the tests don't depend on the machine's.
type locking struct{}

func (locking) Name() string                         { return "none" }
func (locking) Register(unsafe.Pointer, int64) error { return nil }
func (locking) Unregister(unsafe.Pointer) error      { return nil }

// plain is a driver without stream-ordered allocation.
type plain struct{ driver.Driver }

func (p plain) Open(ordinal int) (driver.Device, error) {
	d, err := p.Driver.Open(ordinal)
	if err != nil {
		return nil, err
	}
	return plainDevice{d}, nil
}

type plainDevice struct{ driver.Device }

var errNoPool = &driver.Error{Call: "AllocAsync", Code: driver.CodeNotSupported, Name: "CUDA_ERROR_NOT_SUPPORTED", Text: "not supported"}

func (plainDevice) AllocAsync(int64, driver.Stream) (driver.DevicePtr, error) { return 0, errNoPool }
func (plainDevice) FreeAsync(driver.DevicePtr, driver.Stream) error           { return errNoPool }
func (plainDevice) TrimPool(int64) error                                      { return errNoPool }

// rig is a device with all that a test needs. When the test ends, nothing may be left of it.
type rig struct {
	testing.TB
	dev    *asynccopy.Device
	drv    driver.Driver
	engine *pintensor.Engine
}

// onEach runs a test on every kind of device.
func onEach(t *testing.T, test func(r *rig)) {
	for _, kind := range devices {
		t.Run(kind.name, func(t *testing.T) {
			test(newRig(t, kind.driver(t)))
		})
	}
}

func newRig(t testing.TB, drv driver.Driver, opts ...asynccopy.Option) *rig {
	t.Helper()
	leak.Check(t)
	r := &rig{TB: t, drv: drivertest.Checked(t, drv)}
	r.start(opts...)
	t.Cleanup(r.end)
	return r
}

// start opens the device, and an engine.
func (r *rig) start(opts ...asynccopy.Option) {
	r.Helper()
	r.engine = must(pintensor.NewEngine(pintensor.WithDriver(r.drv.Host())))(r)
	r.dev = must(asynccopy.OpenDriver(r.drv, 0, opts...))(r)
	r.dev.SetEngine(r.engine)
}

// end closes everything and looks for what is left.
func (r *rig) end() {
	r.Helper()
	if err := r.dev.Close(); err != nil {
		r.Errorf("Device.Close: %v", err)
	}
	r.checkEmpty()
}

// checkEmpty expects that nothing is left on the device, which was closed, nor in the engine, which it
// closes.
func (r *rig) checkEmpty() {
	r.Helper()
	s := r.dev.Stats()
	if s.Memory.Current != 0 || s.Lent.Current != 0 || s.Cached != 0 || s.Tensors != 0 || s.Streams != 0 || s.Events != 0 {
		r.Errorf("left on the device: %+v", s)
	}
	e := r.engine.Stats()
	if e.Lent.Current != 0 || e.InFlight.Current != 0 {
		r.Errorf("left in the engine: lent %d, in flight %d", e.Lent.Current, e.InFlight.Current)
	}
	if err := r.engine.Close(); err != nil {
		r.Errorf("Engine.Close: %v", err)
	}
}

func (r *rig) stream() *asynccopy.Stream {
	r.Helper()
	return must(r.dev.NewStream())(r)
}

// must returns a function that fails the test for an error, and otherwise returns the value.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// pinned returns page-locked bytes of a pattern that seed names.
func (r *rig) pinned(n int, seed uint64) *tensor.Dense {
	r.Helper()
	t := must(r.engine.New(tensor.Uint8, n))(r)
	pattern(t, seed)
	return t
}

// longest is the size of a copy for which every chunk is used more than once.
func longest() int { return 2*min(runtime.GOMAXPROCS(0), 8)*asynccopy.Largest + asynccopy.Largest + 5 }

// pageable returns ordinary memory with a pattern.
func pageable(n int, seed uint64) *tensor.Dense {
	t := tensor.New(tensor.Of(tensor.Uint8), tensor.WithShape(n))
	pattern(t, seed)
	return t
}

// pattern fills a contiguous tensor with bytes that depend on seed. They repeat, but with a period that no
// chunk is a multiple of.
func pattern(t *tensor.Dense, seed uint64) {
	once := period(seed)
	for raw := t.Raw; len(raw) > 0; {
		raw = raw[copy(raw, once):]
	}
	if t.Dtype().Kind() == reflect.Bool {
		for i := range t.Raw {
			t.Raw[i] &= 1
		}
	}
}

// periods are the patterns so far, by seed.
var periods sync.Map

func period(seed uint64) []byte {
	if p, ok := periods.Load(seed); ok {
		return p.([]byte)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	p := make([]byte, 10007)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	periods.Store(seed, p)
	return p
}

// holdsPattern reports whether raw is what pattern makes of bytes.
func holdsPattern(raw []byte, seed uint64) bool {
	for once := period(seed); len(raw) > 0; {
		n := min(len(raw), len(once))
		if !bytes.Equal(raw[:n], once[:n]) {
			return false
		}
		raw = raw[n:]
	}
	return true
}

// is fails the test unless got holds the pattern of seed.
func (r *rig) is(got *tensor.Dense, seed uint64) {
	r.Helper()
	if !holdsPattern(got.Raw, seed) {
		r.Fatalf("%d bytes differ from pattern %d: %x..., want %x...", len(got.Raw), seed, got.Raw[:min(8, len(got.Raw))], period(seed)[:8])
	}
}

// holds fails the test unless x holds the pattern of seed.
func (r *rig) holds(s *asynccopy.Stream, x *asynccopy.Tensor, seed uint64) {
	r.Helper()
	down := must(s.ToHost(x, false))(r)
	host := must(down.Wait(context.Background()))(r)
	r.is(host, seed)
	r.release(host)
}

func (r *rig) release(t *tensor.Dense) {
	r.Helper()
	r.ok(r.engine.Release(t))
}
