package asynccopy_test

// This file tests that bad arguments give errors that name them, and change nothing.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/tensor"
)

// refused fails the test unless err is of this package and its text has all the words.
func refused(t testing.TB, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	if !strings.HasPrefix(err.Error(), "asynccopy: ") || strings.Contains(err.Error()[1:], "asynccopy: ") {
		t.Errorf("%s: %q does not begin with the package's name, once", what, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

// inaccessible is an engine whose memory the host can't reach.
type inaccessible struct{ tensor.StdEng }

func (inaccessible) AllocAccessible() bool { return false }

func TestBadHostTensors(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	masked := tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 2}), tensor.WithMask([]bool{true, false}))
	foreign := tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 2}), tensor.WithEngine(inaccessible{}))
	words := tensor.New(tensor.WithShape(2), tensor.WithBacking([]string{"a", "b"}))
	gone := tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{1, 2}))
	gone.Raw = nil
	x := must(s.Empty(tensor.Float32, 2))(t)
	for _, c := range []struct {
		name  string
		host  *tensor.Dense
		words []string
	}{
		{"nil", nil, []string{"nil"}},
		{"masked", masked, []string{"mask"}},
		{"inaccessible", foreign, []string{"asynccopy_test.inaccessible", "access"}},
		{"string", words, []string{"string", "pointers"}},
		{"without memory", gone, []string{"(2)", "0 bytes"}},
		{"without dtype", new(tensor.Dense), []string{"dtype"}},
	} {
		_, err := s.ToDevice(c.host, true)
		refused(t, "ToDevice of "+c.name, err, append(c.words, "ToDevice: t: ")...)
		refused(t, "ToDeviceInto of "+c.name, s.ToDeviceInto(x, c.host, true), append(c.words, "ToDeviceInto: t: ")...)
		_, err = s.ToHostInto(c.host, x, true)
		refused(t, "ToHostInto "+c.name, err, append(c.words, "ToHostInto: dst: ")...)
	}
	if n := r.dev.Stats().Tensors; n != 1 {
		t.Errorf("refused calls left %d tensors", n-1)
	}
	r.ok(x.Release())
}

func TestBadDestinations(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	x := must(s.Empty(tensor.Float32, 2, 3))(t)
	f32 := func(shape ...int) *tensor.Dense {
		return tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(shape...))
	}
	transposed := f32(3, 2)
	r.ok(transposed.T())
	view := must(f32(2, 6).Slice(nil, tensor.S(0, 3)))(t).(*tensor.Dense)
	for _, c := range []struct {
		name  string
		host  *tensor.Dense
		words []string
	}{
		{"shape", f32(3, 2), []string{"(2, 3)", "(3, 2)"}},
		{"flat", f32(6), []string{"(2, 3)", "(6)"}},
		{"dtype", tensor.New(tensor.Of(tensor.Int32), tensor.WithShape(2, 3)), []string{"float32", "int32"}},
	} {
		refused(t, c.name, s.ToDeviceInto(x, c.host, true), append(c.words, "dst", "t ")...)
		_, err := s.ToHostInto(c.host, x, true)
		refused(t, c.name, err, append(c.words, "dst")...)
	}
	for name, host := range map[string]*tensor.Dense{"transposed": transposed, "view": view} {
		_, err := s.ToHostInto(host, x, true)
		refused(t, name, err, "dst", "strides", fmt.Sprint(host.Strides()), "contiguous")
		r.ok(s.ToDeviceInto(x, host, true))
	}
	r.ok(x.Release())
}

func TestBadTensorsAndStreams(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}, Devices: 2}))
	other := must(asynccopy.OpenDriver(r.drv, 1))(t)
	t.Cleanup(func() { r.ok(other.Close()) })
	s, foreign := r.stream(), must(other.NewStream())(t)
	host := pageable(4, 1)
	x := must(s.Empty(tensor.Uint8, 4))(t)
	elsewhere := must(foreign.Empty(tensor.Uint8, 4))(t)
	for name, c := range map[string]struct {
		x     *asynccopy.Tensor
		words []string
	}{
		"nil":            {nil, []string{"nil"}},
		"zero":           {new(asynccopy.Tensor), []string{"nil"}},
		"another device": {elsewhere, []string{"device 0", "device 1", "want one Device, of one call of Open"}},
	} {
		_, toHost := s.ToHost(c.x, true)
		_, toHostInto := s.ToHostInto(host, c.x, true)
		refused(t, "ToHost "+name, toHost, append(c.words, "ToHost")...)
		refused(t, "ToHostInto "+name, toHostInto, append(c.words, "ToHostInto")...)
		refused(t, "ToDeviceInto "+name, s.ToDeviceInto(c.x, host, true), append(c.words, "ToDeviceInto")...)
		refused(t, "Use "+name, c.x.Use(s), append(c.words, "Use")...)
		if name == "another device" {
			continue
		}
		refused(t, "Release "+name, c.x.Release(), append(c.words, "Release")...)
		r.ok(c.x.Wait(t.Context()))
		r.ok(s.Wait(c.x.Ready()))
		if p := c.x.DevicePtr(); p != 0 {
			t.Errorf("DevicePtr of a %s Tensor: %#x", name, p)
		}
	}
	var event *asynccopy.Event
	refused(t, "Wait of a nil Event", event.Wait(t.Context()), "event", "nil")
	_, err := event.Done()
	refused(t, "Done of a nil Event", err, "event", "nil")
	refused(t, "Use(nil)", x.Use(nil), "Use", "nil")
	refused(t, "Wait(nil)", s.Wait(nil), "Wait", "nil")
	var noContext context.Context
	refused(t, "Synchronize(nil)", s.Synchronize(noContext), "ctx", "nil")
	refused(t, "Event.Wait(nil)", x.Wait(noContext), "ctx", "nil")
	var none *asynccopy.Stream
	_, err = none.ToDevice(host, true)
	refused(t, "ToDevice on nil", err, "ToDevice", "nil")
	refused(t, "Synchronize on nil", none.Synchronize(t.Context()), "Synchronize", "nil")
	refused(t, "Close of a nil stream", none.Close(), "Close", "nil")
	if h := none.Handle(); h != 0 {
		t.Errorf("Handle of a nil Stream: %#x", h)
	}
	var device *asynccopy.Device
	_, err = device.NewStream()
	refused(t, "NewStream on nil", err, "NewStream", "nil")
	refused(t, "Close of a nil device", device.Close(), "Close", "nil")
	var download *asynccopy.Download
	_, err = download.Wait(t.Context())
	refused(t, "Wait of a nil download", err, "Wait", "nil")
	r.ok(x.Release())
	r.ok(elsewhere.Release())
}

func TestBadShapes(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	for _, c := range []struct {
		dt    tensor.Dtype
		shape []int
		words []string
	}{
		{tensor.Float32, []int{2, -1}, []string{"[2 -1]", "dimension 1", "-1"}},
		{tensor.Float32, []int{0, -1}, []string{"dimension 1"}},
		{tensor.Float64, []int{math.MaxInt, 2}, []string{"bytes"}},
		{tensor.Float64, []int{1 << 31, 1 << 31, 1 << 31}, []string{"bytes"}},
		{tensor.String, []int{2}, []string{"string"}},
		{tensor.UnsafePointer, []int{2}, []string{"pointers"}},
		{tensor.Dtype{}, []int{2}, []string{"dtype"}},
	} {
		_, err := s.Empty(c.dt, c.shape...)
		refused(t, fmt.Sprint(c.shape), err, append(c.words, "Empty")...)
	}
	_, err := s.Empty(tensor.Float64, 1<<40)
	refused(t, "too large", err)
	if !errors.Is(err, asynccopy.ErrOutOfMemory) {
		t.Errorf("8 TiB: %v, want ErrOutOfMemory", err)
	}
}

// TestNoDriver: the error names each library that was tried, with the reason, for those who must find out why.
func TestNoDriver(t *testing.T) {
	leak.Check(t)
	_, err := asynccopy.Open(0)
	if err == nil || !errors.Is(err, asynccopy.ErrUnavailable) || runtime.GOOS != "linux" {
		t.Skipf("there is a driver, or another system: %v", err)
	}
	refused(t, "no driver", err, "Open: ", "libcuda.so.1: ", "; /usr/lib/wsl/lib/libcuda.so.1: ")
}

func TestOpening(t *testing.T) {
	leak.Check(t)
	for _, n := range []int{-1, 1, 7} {
		_, err := asynccopy.OpenDriver(soft.New(soft.Config{}), n)
		refused(t, "ordinal", err, fmt.Sprint(n), "1 device")
		if !errors.Is(err, asynccopy.ErrUnavailable) {
			t.Errorf("ordinal %d: %v, want ErrUnavailable", n, err)
		}
	}
	_, err := asynccopy.OpenSoft(asynccopy.WithMemory(0))
	refused(t, "WithMemory(0)", err, "OpenSoft", "bytes is 0")
	_, err = asynccopy.OpenSoft(nil)
	refused(t, "nil option", err, "option 0 is nil")
	_, err = asynccopy.Open(0, asynccopy.WithMemory(1<<20))
	refused(t, "WithMemory of a CUDA device", err, "WithMemory")
	if _, err := asynccopy.Open(-1); err == nil {
		t.Error("Open(-1): no error")
	} else {
		refused(t, "Open(-1)", err)
	}
	d := must(asynccopy.OpenSoft(asynccopy.WithMemory(1 << 20)))(t)
	if _, total, err := d.MemInfo(); err != nil || total != 1<<20 {
		t.Errorf("MemInfo of a device of 1 MiB: %d, %v", total, err)
	}
	if d.IsCUDA() || d.Name() == "" {
		t.Errorf("the software device is %q, IsCUDA %v", d.Name(), d.IsCUDA())
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if d, err := asynccopy.OpenDefault(); err != nil {
		t.Error(err)
	} else if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestTensorAsAValue(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	host := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{1, 2, 3, 4, 5, 6}))
	x := must(s.ToDevice(host, false))(t)
	if x.Size() != 6 || x.Data() != any(x) || x.Uintptr() != x.DevicePtr() || x.DevicePtr() == 0 {
		t.Errorf("size %d, data %v, addresses %#x %#x", x.Size(), x.Data(), x.Uintptr(), x.DevicePtr())
	}
	for _, format := range []string{"%v", "%s", "%+v", "%d"} {
		if got, want := fmt.Sprintf(format, x), "float32(2, 3) on device 0 (software device 0)"; got != want {
			t.Errorf("%s prints %q, want %q", format, got, want)
		}
	}
	if got, want := fmt.Sprint(s, new(asynccopy.Stream)), "stream on device 0 (software device 0) no stream"; got != want {
		t.Errorf("streams print as %q, want %q", got, want)
	}
	x.Shape()[0] = 100
	if x.Shape()[0] != 2 {
		t.Error("the caller can change the shape")
	}
	if done, err := must(s.Empty(tensor.Uint8))(t).Ready().Done(); !done || err != nil {
		t.Errorf("a Tensor that nothing wrote: %v, %v", done, err)
	}
	r.ok(x.Release())
}

// A ctx that is nil is an error that names the call, not a panic.
func TestNilContext(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s := r.stream()
	e := must(s.Record())(t)
	var none context.Context
	refused(t, "Wait", e.Wait(none), "Wait: ctx is nil")
	refused(t, "Stream.Synchronize", s.Synchronize(none), "Synchronize: ctx is nil")
	refused(t, "Device.Synchronize", r.dev.Synchronize(none), "Synchronize: ctx is nil")
}
