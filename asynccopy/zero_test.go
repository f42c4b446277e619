package asynccopy_test

// This file tests values that this package did not make, and what its values print as.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
	"github.com/pintensor/pin/internal/zerocall"
	"gorgonia.org/tensor"
)

// TestNilAndZero calls everything on a nil and on a zero value: errors say which it was.
func TestNilAndZero(t *testing.T) {
	leak.Check(t)
	ctx := context.Background()
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s, host := r.stream(), pageable(4, 1)
	x := must(s.Empty(tensor.Uint8, 4))(t)
	for what, d := range map[string]*asynccopy.Device{"is nil": nil, "is a zero Device": new(asynccopy.Device)} {
		for call, err := range map[string]error{
			"MemInfo":               func() error { _, _, err := d.MemInfo(); return err }(),
			"Synchronize":           d.Synchronize(ctx),
			"Trim":                  d.Trim(),
			"NewStream":             func() error { _, err := d.NewStream(); return err }(),
			"NewStreamWithPriority": func() error { _, err := d.NewStreamWithPriority(1); return err }(),
			"Default":               func() error { _, err := d.Default(); return err }(),
			"Close":                 d.Close(),
		} {
			refused(t, call, err, call+": the device "+what)
		}
		if d.Name() != "no device" || d.IsCUDA() || d.Stats() != (asynccopy.Stats{}) || d.Trace() != nil || d.String() != "no device" {
			t.Errorf("the device %s: %q, %v, %v, %v", what, d.Name(), d.IsCUDA(), d.Stats(), d)
		}
	}
	for what, z := range map[string]*asynccopy.Stream{"is nil": nil, "is a zero Stream": new(asynccopy.Stream)} {
		for call, err := range map[string]error{
			"ToDevice":          func() error { _, err := z.ToDevice(host, true); return err }(),
			"ToDeviceInto":      z.ToDeviceInto(x, host, true),
			"ToDeviceBatch":     func() error { _, err := z.ToDeviceBatch([]*tensor.Dense{host}, true); return err }(),
			"ToDeviceBatchInto": z.ToDeviceBatchInto([]*asynccopy.Tensor{x}, []*tensor.Dense{host}, true),
			"ToHost":            func() error { _, err := z.ToHost(x, true); return err }(),
			"ToHostInto":        func() error { _, err := z.ToHostInto(host, x, true); return err }(),
			"Copy":              func() error { _, err := z.Copy(x, true); return err }(),
			"CopyInto":          z.CopyInto(x, x, true),
			"Empty":             func() error { _, err := z.Empty(tensor.Uint8, 1); return err }(),
			"Record":            func() error { _, err := z.Record(); return err }(),
			"Wait":              z.Wait(new(asynccopy.Event)),
			"Synchronize":       z.Synchronize(ctx),
			"Issue":             z.Issue("", func(driver.Device, driver.Stream) error { return nil }),
			"Use":               x.Use(z),
			"Used":              x.Used(z),
			"Close":             z.Close(),
		} {
			refused(t, call, err, call+": the stream "+what)
		}
		if z.Handle() != 0 || z.Device() != nil || z.String() != "no stream" {
			t.Errorf("the stream %s: %#x, %v, %v", what, z.Handle(), z.Device(), z)
		}
	}
	for _, z := range []*asynccopy.Tensor{nil, new(asynccopy.Tensor)} {
		for call, err := range map[string]error{
			"ToDeviceInto":      s.ToDeviceInto(z, host, true),
			"ToDeviceBatchInto": s.ToDeviceBatchInto([]*asynccopy.Tensor{z}, []*tensor.Dense{host}, true),
			"ToHost":            func() error { _, err := s.ToHost(z, true); return err }(),
			"ToHostInto":        func() error { _, err := s.ToHostInto(host, z, true); return err }(),
			"Copy":              func() error { _, err := s.Copy(z, true); return err }(),
			"Part":              func() error { _, err := z.Part(0, tensor.Uint8); return err }(),
			"Use":               z.Use(s),
			"Used":              z.Used(s),
			"Release":           z.Release(),
		} {
			refused(t, call, err, call, "the tensor is nil, or a zero Tensor")
		}
		z.EndUse()
		if fmt.Sprint(z) != "no tensor" || z.DevicePtr() != 0 || z.Ready() == nil || z.Wait(ctx) != nil {
			t.Errorf("%v, %#x, %v", z, z.DevicePtr(), z.Ready())
		}
	}
	if z := new(asynccopy.Tensor); z.Device() != nil || z.Size() != 0 || len(z.Shape()) != 0 || z.MemSize() != 0 {
		t.Errorf("the zero Tensor: %v, %d, %v, %d", z.Device(), z.Size(), z.Shape(), z.MemSize())
	}
	for _, z := range []*asynccopy.Download{nil, new(asynccopy.Download)} {
		_, err := z.Wait(ctx)
		refused(t, "Download.Wait", err, "Wait: the download is nil")
		if done, err := z.Ready().Done(); !done || err != nil || fmt.Sprint(z) != "no download" {
			t.Errorf("%v: %v, %v", z, done, err)
		}
	}
	r.ok(x.Release())
}

// TestMethodsOfNilAndZero calls what there is, in whatever way.
func TestMethodsOfNilAndZero(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s, host := r.stream(), pageable(4, 1)
	x := must(s.Empty(tensor.Uint8, 4))(t)
	args := []any{
		context.Background(), s, x, host, tensor.Uint8, must(s.Record())(t), []*asynccopy.Tensor{x}, []*tensor.Dense{host}, true, 4, int64(0),
		"name", func(driver.Device, driver.Stream) error { return nil }, asynccopy.ErrOutOfMemory,
	}
	for _, z := range []*asynccopy.Device{nil, {}} {
		zerocall.Methods(t, z, "asynccopy: ", args)
		if z.Driver() != nil {
			t.Errorf("the driver of %v is %v", z, z.Driver())
		}
	}
	for _, z := range []*asynccopy.Stream{nil, {}} {
		zerocall.Methods(t, z, "asynccopy: ", args)
	}
	for _, z := range []*asynccopy.Tensor{nil, {}} {
		zerocall.Methods(t, z, "asynccopy: ", args, "Wait") // nobody writes it
		if z.Device() != nil || z.Size() != 0 || len(z.Shape()) != 0 || z.MemSize() != 0 || z.Dtype() != (tensor.Dtype{}) {
			t.Errorf("%v: %v, %d, %v, %d, %v", z, z.Device(), z.Size(), z.Shape(), z.MemSize(), z.Dtype())
		}
	}
	zerocall.Methods(t, (*asynccopy.Event)(nil), "asynccopy: ", args)
	zerocall.Methods(t, new(asynccopy.Event), "asynccopy: ", args, "Done", "Wait") // it is complete
	for _, z := range []*asynccopy.Download{nil, {}} {
		zerocall.Methods(t, z, "asynccopy: ", args)
	}
	zerocall.Methods(t, (*asynccopy.Trace)(nil), "asynccopy: ", args, "Close") // nobody wants it
	zerocall.Methods(t, new(asynccopy.Trace), "asynccopy: ", args)
	zerocall.Methods(t, asynccopy.Span{}, "asynccopy: ", args)
	for _, z := range []*asynccopy.DriverError{nil, {}} {
		zerocall.Methods(t, z, "asynccopy: ", args)
	}
	_, err := asynccopy.OpenSoft(asynccopy.WithTrace(new(asynccopy.Trace)))
	refused(t, "WithTrace", err, "OpenSoft: WithTrace: t is a zero Trace")
	r.ok(x.Release())
}

// TestPrinting: values print as what they are, not as what is in them, with every verb that people use.
func TestPrinting(t *testing.T) {
	leak.Check(t)
	ctx := context.Background()
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	s, host := r.stream(), r.pinned(4, 1)
	x := must(s.ToDevice(host, false))(t)
	down := must(s.ToHost(x, false))(t)
	e := must(s.Record())(t)
	r.ok(e.Wait(ctx))
	const on = "stream on device 0 (software device 0)"
	for want, v := range map[string]any{
		"device 0 (software device 0)": s.Device(),
		on:                             s,
		"uint8(4) on device 0 (software device 0)": x,
		"event of " + on + ": complete":            e,
		"download, event of " + on + ": complete":  down,
		"no event": new(asynccopy.Event),
	} {
		for _, verb := range []string{"%v", "%+v", "%s"} {
			if got := fmt.Sprintf(verb, v); got != want {
				t.Errorf("%s: %q, want %q", verb, got, want)
			}
		}
	}
	late := newRig(t, soft.New(soft.Config{Host: locking{}, Late: true}))
	p := late.pinned(4, 1)
	y := must(late.stream().ToDevice(p, true))(t)
	if got := y.Ready().String(); !strings.HasSuffix(got, ": not known to be complete") {
		t.Errorf("%q", got)
	}
	late.ok(y.Release())
	late.release(p)
	r.release(must(down.Wait(ctx))(t))
	r.ok(x.Release())
	r.release(host)
}
