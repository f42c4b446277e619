package drivertest

// This file passes the calls that don't fail on.

import (
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// Faulty is a driver whose calls fail as its [Faults] say. Its host and all its devices share them.
type Faulty struct {
	Faults
	inner driver.Driver
}

// NewFaulty returns drv with no faults yet.
func NewFaulty(drv driver.Driver) *Faulty { return &Faulty{inner: drv} }

// Host returns the wrapped driver's host, with the faults of f.
func (f *Faulty) Host() driver.Host { return faultyHost{&f.Faults, f.inner.Host()} }

func (f *Faulty) Devices() (int, error) {
	if err := f.before("Devices"); err != nil {
		return 0, err
	}
	return f.inner.Devices()
}

func (f *Faulty) Open(ordinal int) (driver.Device, error) {
	if err := f.before("Open"); err != nil {
		return nil, err
	}
	d, err := f.inner.Open(ordinal)
	if err != nil {
		return nil, err
	}
	return &faultyDevice{&f.Faults, d}, nil
}

// FaultyHost is a host whose calls fail as its [Faults] say.
type FaultyHost struct {
	Faults
	inner driver.Host
}

// NewFaultyHost returns host with no faults yet.
func NewFaultyHost(host driver.Host) *FaultyHost { return &FaultyHost{inner: host} }

func (h *FaultyHost) Name() string { return h.inner.Name() }

func (h *FaultyHost) Register(p unsafe.Pointer, n int64) error {
	return faultyHost{&h.Faults, h.inner}.Register(p, n)
}

func (h *FaultyHost) Unregister(p unsafe.Pointer) error {
	return faultyHost{&h.Faults, h.inner}.Unregister(p)
}

type faultyHost struct {
	faults *Faults
	inner  driver.Host
}

func (h faultyHost) Name() string { return h.inner.Name() }

func (h faultyHost) Register(p unsafe.Pointer, n int64) error {
	if err := h.faults.before("Register"); err != nil {
		return err
	}
	return h.inner.Register(p, n)
}

func (h faultyHost) Unregister(p unsafe.Pointer) error {
	if err := h.faults.before("Unregister"); err != nil {
		return err
	}
	return h.inner.Unregister(p)
}

type faultyDevice struct {
	faults *Faults
	inner  driver.Device
}

func (d *faultyDevice) Name() string { return d.inner.Name() }

func (d *faultyDevice) Within(call func() error) error {
	if err := d.faults.before("Within"); err != nil {
		return err
	}
	return d.inner.Within(call)
}

func (d *faultyDevice) MemInfo() (free, total int64, err error) {
	if err := d.faults.before("MemInfo"); err != nil {
		return 0, 0, err
	}
	return d.inner.MemInfo()
}

func (d *faultyDevice) Alloc(n int64) (driver.DevicePtr, error) {
	if err := d.faults.before("Alloc"); err != nil {
		return 0, err
	}
	return d.inner.Alloc(n)
}

func (d *faultyDevice) Free(p driver.DevicePtr) error {
	if err := d.faults.before("Free"); err != nil {
		return err
	}
	return d.inner.Free(p)
}

func (d *faultyDevice) AllocAsync(n int64, s driver.Stream) (driver.DevicePtr, error) {
	if err := d.faults.before("AllocAsync"); err != nil {
		return 0, err
	}
	return d.inner.AllocAsync(n, s)
}

func (d *faultyDevice) FreeAsync(p driver.DevicePtr, s driver.Stream) error {
	if err := d.faults.before("FreeAsync"); err != nil {
		return err
	}
	return d.inner.FreeAsync(p, s)
}

func (d *faultyDevice) TrimPool(keep int64) error {
	if err := d.faults.before("TrimPool"); err != nil {
		return err
	}
	return d.inner.TrimPool(keep)
}

func (d *faultyDevice) NewStream(priority int) (driver.Stream, error) {
	if err := d.faults.before("NewStream"); err != nil {
		return 0, err
	}
	return d.inner.NewStream(priority)
}

func (d *faultyDevice) DestroyStream(s driver.Stream) error {
	if err := d.faults.before("DestroyStream"); err != nil {
		return err
	}
	return d.inner.DestroyStream(s)
}

func (d *faultyDevice) SyncStream(s driver.Stream) error {
	if err := d.faults.before("SyncStream"); err != nil {
		return err
	}
	return d.inner.SyncStream(s)
}

func (d *faultyDevice) NewEvent() (driver.Event, error) {
	if err := d.faults.before("NewEvent"); err != nil {
		return 0, err
	}
	return d.inner.NewEvent()
}

func (d *faultyDevice) DestroyEvent(e driver.Event) error {
	if err := d.faults.before("DestroyEvent"); err != nil {
		return err
	}
	return d.inner.DestroyEvent(e)
}

func (d *faultyDevice) Record(e driver.Event, s driver.Stream) error {
	if err := d.faults.before("Record"); err != nil {
		return err
	}
	return d.inner.Record(e, s)
}

func (d *faultyDevice) Query(e driver.Event) (bool, error) {
	if err := d.faults.before("Query"); err != nil {
		return false, err
	}
	return d.inner.Query(e)
}

func (d *faultyDevice) SyncEvent(e driver.Event) error {
	if err := d.faults.before("SyncEvent"); err != nil {
		return err
	}
	return d.inner.SyncEvent(e)
}

func (d *faultyDevice) WaitEvent(s driver.Stream, e driver.Event) error {
	if err := d.faults.before("WaitEvent"); err != nil {
		return err
	}
	return d.inner.WaitEvent(s, e)
}

func (d *faultyDevice) CopyHtoD(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream, done driver.Event) error {
	if err := d.faults.before("CopyHtoD"); err != nil {
		return err
	}
	return d.inner.CopyHtoD(dst, src, n, s, done)
}

func (d *faultyDevice) CopyDtoH(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	if err := d.faults.before("CopyDtoH"); err != nil {
		return err
	}
	return d.inner.CopyDtoH(dst, src, n, s, done)
}

func (d *faultyDevice) CopyDtoD(dst, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	if err := d.faults.before("CopyDtoD"); err != nil {
		return err
	}
	return d.inner.CopyDtoD(dst, src, n, s, done)
}

func (d *faultyDevice) Memset(dst driver.DevicePtr, value byte, n int64, s driver.Stream, done driver.Event) error {
	if err := d.faults.before("Memset"); err != nil {
		return err
	}
	return d.inner.Memset(dst, value, n, s, done)
}

func (d *faultyDevice) Close() error {
	if err := d.faults.before("Close"); err != nil {
		return err
	}
	return d.inner.Close()
}

func (d *faultyDevice) Peer() driver.Peer { return d.inner.Peer() }

func (d *faultyDevice) Share(with driver.Peer) (bool, error) {
	if err := d.faults.before("Share"); err != nil {
		return false, err
	}
	return d.inner.Share(with)
}

func (d *faultyDevice) CopyPeer(dst, src driver.DevicePtr, from driver.Peer, n int64, s driver.Stream, done driver.Event) error {
	if err := d.faults.before("CopyPeer"); err != nil {
		return err
	}
	return d.inner.CopyPeer(dst, src, from, n, s, done)
}
