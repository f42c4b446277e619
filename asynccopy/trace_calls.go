package asynccopy

// This file has the calls that a traced device passes on: those that issue work, with a timing event before and after,
// and those that say what the work is.

import (
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

func (d *traced) NewStream(priority int) (driver.Stream, error) {
	s, err := d.Device.NewStream(priority)
	if err == nil {
		d.mu.Lock()
		d.thread(s)
		d.mu.Unlock()
	}
	return s, err
}

// DestroyStream forgets the handle, which the next stream may have.
func (d *traced) DestroyStream(s driver.Stream) error {
	d.mu.Lock()
	delete(d.threads, s)
	delete(d.capturing, s)
	d.mu.Unlock()
	return d.Device.DestroyStream(s)
}

func (d *traced) WaitEvent(s driver.Stream, e driver.Event) error {
	begin, ok := d.before(s)
	err := d.Device.WaitEvent(s, e)
	if ok {
		d.after(s, begin, err, "wait", "wait", 0)
	}
	return err
}

func (d *traced) CopyHtoD(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream, done driver.Event) error {
	begin, ok := d.before(s)
	err := d.Device.CopyHtoD(dst, src, n, s, done)
	if ok {
		d.after(s, begin, err, "copy", "HtoD", n)
	}
	return err
}

func (d *traced) CopyDtoH(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	begin, ok := d.before(s)
	err := d.Device.CopyDtoH(dst, src, n, s, done)
	if ok {
		d.after(s, begin, err, "copy", "DtoH", n)
	}
	return err
}

func (d *traced) CopyDtoD(dst, src driver.DevicePtr, n int64, s driver.Stream, done driver.Event) error {
	begin, ok := d.before(s)
	err := d.Device.CopyDtoD(dst, src, n, s, done)
	if ok {
		d.after(s, begin, err, "copy", "DtoD", n)
	}
	return err
}

func (d *traced) CopyPeer(dst, src driver.DevicePtr, from driver.Peer, n int64, s driver.Stream, done driver.Event) error {
	begin, ok := d.before(s)
	err := d.Device.CopyPeer(dst, src, from, n, s, done)
	if ok {
		d.after(s, begin, err, "copy", "PtoP", n)
	}
	return err
}

func (d *traced) Memset(dst driver.DevicePtr, value byte, n int64, s driver.Stream, done driver.Event) error {
	begin, ok := d.before(s)
	err := d.Device.Memset(dst, value, n, s, done)
	if ok {
		d.after(s, begin, err, "copy", "fill", n)
	}
	return err
}

func (d *traced) Function(m driver.Module, name string) (driver.Function, error) {
	f, err := d.Device.Function(m, name)
	if err == nil {
		d.mu.Lock()
		d.names[f] = name
		d.mu.Unlock()
	}
	return f, err
}

func (d *traced) Launch(f driver.Function, grid, block driver.Dim3, shared uint32, s driver.Stream, args []uint64) error {
	begin, ok := d.before(s)
	err := d.Device.Launch(f, grid, block, shared, s, args)
	if ok {
		d.mu.Lock()
		name := d.names[f]
		d.mu.Unlock()
		d.after(s, begin, err, "kernel", name, 0)
	}
	return err
}

func (d *traced) BeginCapture(s driver.Stream) error {
	d.mu.Lock()
	d.capturing[s] = true
	d.mu.Unlock()
	err := d.Device.BeginCapture(s)
	if err != nil {
		d.ended(s)
	}
	return err
}

func (d *traced) EndCapture(s driver.Stream) (driver.Graph, error) {
	g, err := d.Device.EndCapture(s)
	d.ended(s)
	return g, err
}

func (d *traced) ended(s driver.Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.capturing, s)
}

func (d *traced) LaunchGraph(g driver.Graph, s driver.Stream) error {
	begin, ok := d.before(s)
	err := d.Device.LaunchGraph(g, s)
	if ok {
		d.after(s, begin, err, "graph", "graph", 0)
	}
	return err
}

// issue traces what other packages issue, under the name that they give it.
func (d *traced) issue(name string, s driver.Stream, issue func(driver.Device, driver.Stream) error) error {
	begin, ok := d.before(s)
	err := issue(d, s)
	if ok {
		d.after(s, begin, err, "issue", name, 0)
	}
	return err
}
