package drivertest

// This file has the conformance tests of what goes wrong, and of the life of devices and registrations.

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// code expects err to be a *driver.Error with the code, and complete.
func (r *rig) code(what string, err error, code int) {
	r.Helper()
	var e *driver.Error
	if !errors.As(err, &e) {
		r.Errorf("%s: %v, want a *driver.Error", what, err)
		return
	}
	if e.Code != code || e.Call == "" || e.Name == "" || e.Text == "" {
		r.Errorf("%s: %#v, want code %d, and a call, name and text", what, e, code)
	}
}

func testHost(r *rig) {
	host := r.drv.Host()
	b := make([]byte, 256<<10)
	at := func(i int) unsafe.Pointer { return unsafe.Pointer(&b[i]) }
	const half = 128 << 10
	err := host.Register(at(0), half)
	if errors.Is(err, driver.ErrNotSupported) || errors.Is(err, driver.ErrOutOfMemory) && host.Name() != "cuda" {
		r.Skipf("this system does not let the process lock memory: %v", err)
	}
	r.ok(err)
	r.code("the same again", host.Register(at(0), half), driver.CodeAlreadyRegister)
	r.code("overlapping the end", host.Register(at(half-4096), half), driver.CodeAlreadyRegister)
	r.code("inside", host.Register(at(4096), 4096), driver.CodeAlreadyRegister)
	r.code("unregistering an interior address", host.Unregister(at(4096)), driver.CodeNotRegistered)
	r.ok(host.Register(at(half), half)) // next to it
	r.ok(host.Unregister(at(0)))
	r.code("unregistering twice", host.Unregister(at(0)), driver.CodeNotRegistered)
	r.code("unregistering what never was", host.Unregister(at(8)), driver.CodeNotRegistered)
	r.ok(host.Register(at(0), half)) // again
	r.ok(host.Unregister(at(0)))
	r.ok(host.Unregister(at(half)))
	r.code("nil", host.Register(nil, 4096), driver.CodeInvalidValue)
	r.code("no bytes", host.Register(at(0), 0), driver.CodeInvalidValue)
	r.code("fewer than no bytes", host.Register(at(0), -1), driver.CodeInvalidValue)
	if host.Name() == "" {
		r.Error("the host has no name")
	}
}

// testHostNeighbours registers memory that begins and ends anywhere. Registrations have no byte in common, but
// pages, which stay locked until the last of them is gone.
func testHostNeighbours(r *rig) {
	host := r.drv.Host()
	b, back := make([]byte, 256<<10), r.pinned(256<<10)
	edges := []int{100, 5000, 5010, 9000, 200_000}
	part := func(i int) []byte { return b[edges[i]:edges[i+1]] }
	for i := range edges[1:] {
		err := host.Register(address(part(i)), int64(len(part(i))))
		if errors.Is(err, driver.ErrNotSupported) || errors.Is(err, driver.ErrOutOfMemory) && host.Name() != "cuda" {
			for j := range i {
				r.ok(host.Unregister(address(part(j))))
			}
			r.Skipf("this system does not let the process lock memory: %v", err)
		}
		r.ok(err)
	}
	r.code("two of their bytes", host.Register(address(b[4999:]), 2), driver.CodeAlreadyRegister)
	p, s := r.memory(int64(len(b))), r.stream()
	for _, leaves := range []int{1, 3, 0, 2} {
		pattern(b, leaves)
		for i := range edges[1:] { // those that have left are pageable memory by now
			r.upload(p, part(i), s, 0)
			r.download(back[:len(part(i))], p, s, 0)
			r.ok(r.dev.SyncStream(s))
			r.equal("a part of a page", back[:len(part(i))], part(i))
		}
		r.ok(host.Unregister(address(part(leaves))))
	}
}

func testOpenErrors(r *rig) {
	n, err := r.drv.Devices()
	r.ok(err)
	if n < 1 {
		r.Fatalf("Devices() = %d with device 0 open", n)
	}
	for _, ordinal := range []int{-1, n, 1 << 30} {
		d, err := r.drv.Open(ordinal)
		if d != nil {
			r.Errorf("Open(%d) gave a device", ordinal)
		}
		r.code("Open", err, driver.CodeInvalidDevice)
		if !errors.Is(err, driver.ErrUnavailable) {
			r.Errorf("Open(%d): %v, want ErrUnavailable", ordinal, err)
		}
	}
}

// testBadArguments makes calls that must fail, then sees that the device still works.
func testBadArguments(r *rig) {
	p, s, e := r.memory(4096), r.stream(), r.event()
	b := r.pinned(4096)
	d, host := r.dev, address(b)
	const nowhere = driver.DevicePtr(4096)
	invalid := func(what string, err error) { r.Helper(); r.code(what, err, driver.CodeInvalidValue) }
	handle := func(what string, err error) { r.Helper(); r.code(what, err, driver.CodeInvalidHandle) }

	_, err := d.Alloc(0)
	invalid("Alloc(0)", err)
	_, err = d.Alloc(-1)
	invalid("Alloc(-1)", err)
	_, err = d.AllocAsync(0, s)
	if !errors.Is(err, driver.ErrNotSupported) {
		invalid("AllocAsync(0)", err)
		_, err = d.AllocAsync(1, 0)
		handle("AllocAsync without a stream", err)
		invalid("FreeAsync(0)", d.FreeAsync(0, s))
		handle("FreeAsync without a stream", d.FreeAsync(p, 0))
	}
	invalid("Free(0)", d.Free(0))
	invalid("Free of what is not allocated", d.Free(nowhere))
	invalid("TrimPool(-1)", d.TrimPool(-1))

	handle("DestroyStream(0)", d.DestroyStream(0))
	handle("SyncStream(0)", d.SyncStream(0))
	handle("DestroyEvent(0)", d.DestroyEvent(0))
	handle("SyncEvent(0)", d.SyncEvent(0))
	_, err = d.Query(0)
	handle("Query(0)", err)
	handle("Record(0, s)", d.Record(0, s))
	handle("Record(e, 0)", d.Record(e, 0))
	handle("WaitEvent(0, e)", d.WaitEvent(0, e))
	handle("WaitEvent(s, 0)", d.WaitEvent(s, 0))
	handle("CopyHtoD without a stream", d.CopyHtoD(p, host, 1, 0, 0))

	invalid("CopyHtoD of -1 bytes", d.CopyHtoD(p, host, -1, s, e))
	invalid("CopyDtoH of -1 bytes", d.CopyDtoH(host, p, -1, s, e))
	invalid("CopyDtoD of -1 bytes", d.CopyDtoD(p, p, -1, s, e))
	invalid("Memset of -1 bytes", d.Memset(p, 0, -1, s, e))
	invalid("CopyHtoD from nil", d.CopyHtoD(p, nil, 1, s, e))
	invalid("CopyDtoH to nil", d.CopyDtoH(nil, p, 1, s, e))
	invalid("CopyHtoD to nowhere", d.CopyHtoD(nowhere, host, 1, s, e))
	invalid("CopyDtoH from nowhere", d.CopyDtoH(host, nowhere, 1, s, e))
	invalid("Memset of nowhere", d.Memset(nowhere, 0, 1, s, e))

	invalid("CopyPeer of -1 bytes", d.CopyPeer(p, p, d.Peer(), -1, s, e))
	handle("CopyPeer without a stream", d.CopyPeer(p, p+512, d.Peer(), 1, 0, 0))
	if err := d.CopyPeer(p, p+512, 0, 1, s, e); err == nil {
		r.Error("CopyPeer from no device: no error")
	}
	if _, err := d.Share(0); err == nil {
		r.Error("Share with no device: no error")
	}

	r.roundTrip(s)
	if done, err := d.Query(e); err != nil || !done {
		r.Errorf("calls that failed recorded the event: %v, %v", done, err)
	}
}

func testOpenTwice(r *rig) {
	other, err := r.drv.Open(0)
	r.ok(err)
	p, err := other.Alloc(4096)
	r.ok(err)
	s, err := other.NewStream(0)
	r.ok(err)
	src, dst := r.pinned(4096), r.pinned(4096)
	pattern(src, 7)
	r.ok(other.CopyHtoD(p, address(src), 4096, s, 0))
	r.ok(other.Close())
	r.download(dst, p, s, 0) // through the first Device
	r.ok(r.dev.SyncStream(s))
	r.equal("memory of a Device that is closed", dst, src)
	r.ok(r.dev.DestroyStream(s))
	r.ok(r.dev.Free(p))
}

func testAfterClose(r *rig) {
	d, err := r.drv.Open(0)
	r.ok(err)
	s, e := r.stream(), r.event()
	p, b := r.memory(64), r.pinned(64)
	r.ok(d.Close())
	r.ok(d.Close())
	calls := map[string]func() error{
		"Within":                 func() error { return d.Within(func() error { r.Error("called after Close"); return nil }) },
		"MemInfo":                func() error { _, _, err := d.MemInfo(); return err },
		"Alloc":                  func() error { _, err := d.Alloc(1); return err },
		"Free":                   func() error { return d.Free(p) },
		"AllocAsync":             func() error { _, err := d.AllocAsync(1, s); return err },
		"FreeAsync":              func() error { return d.FreeAsync(p, s) },
		"TrimPool":               func() error { return d.TrimPool(0) },
		"NewStream":              func() error { _, err := d.NewStream(0); return err },
		"DestroyStream":          func() error { return d.DestroyStream(s) },
		"SyncStream":             func() error { return d.SyncStream(s) },
		"NewEvent":               func() error { _, err := d.NewEvent(); return err },
		"DestroyEvent":           func() error { return d.DestroyEvent(e) },
		"Record":                 func() error { return d.Record(e, s) },
		"Query":                  func() error { _, err := d.Query(e); return err },
		"SyncEvent":              func() error { return d.SyncEvent(e) },
		"WaitEvent":              func() error { return d.WaitEvent(s, e) },
		"CopyHtoD":               func() error { return d.CopyHtoD(p, address(b), 64, s, e) },
		"CopyDtoH":               func() error { return d.CopyDtoH(address(b), p, 64, s, e) },
		"CopyDtoD":               func() error { return d.CopyDtoD(p, p+32, 32, s, e) },
		"Memset":                 func() error { return d.Memset(p, 0, 64, s, e) },
		"LoadModule":             func() error { _, err := d.LoadModule(Image); return err },
		"UnloadModule":           func() error { return d.UnloadModule(1) },
		"Function":               func() error { _, err := d.Function(1, "axpy"); return err },
		"Launch":                 func() error { return d.Launch(1, ones(1), ones(1), 0, s, nil) },
		"BeginCapture":           func() error { return d.BeginCapture(s) },
		"EndCapture":             func() error { _, err := d.EndCapture(s); return err },
		"CaptureDependencies":    func() error { _, err := d.CaptureDependencies(s, nil); return err },
		"SetCaptureDependencies": func() error { return d.SetCaptureDependencies(s, nil) },
		"LaunchGraph":            func() error { return d.LaunchGraph(1, s) },
		"DestroyGraph":           func() error { return d.DestroyGraph(1) },
		"NewTimingEvent":         func() error { _, err := d.NewTimingEvent(); return err },
		"Elapsed":                func() error { _, err := d.Elapsed(e, e); return err },
		"Share":                  func() error { _, err := d.Share(r.dev.Peer()); return err },
		"CopyPeer":               func() error { return d.CopyPeer(p, p+32, r.dev.Peer(), 32, s, e) },
	}
	if all := reflect.TypeFor[driver.Device]().NumMethod(); len(calls) != all-3 { // Name and Peer can't fail, Close doesn't
		r.Errorf("%d calls are tried after Close, a Device has %d", len(calls), all)
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, driver.ErrClosed) {
			r.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	if d.Name() == "" {
		r.Error("a closed device has no name")
	}
	r.roundTrip(s) // through the other Device
}
