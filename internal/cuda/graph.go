package cuda

// This file has captures and graphs.

import (
	"errors"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// captureRelaxed is CU_STREAM_CAPTURE_MODE_RELAXED. The other modes forbid calls that other threads may be
// making at the time, such as cuMemAlloc, and want the capture ended by the thread that began it, which a
// goroutine can't promise.
const captureRelaxed = 2

func (d *Device) BeginCapture(s driver.Stream) error {
	call := &d.lib.streamBeginCapture
	f, err := d.beginGraph(call)
	if err != nil {
		return err
	}
	if err := f.checkStream(call, s); err != nil {
		return d.end(f, err)
	}
	return d.end(f, f.call(call, uintptr(s), captureRelaxed))
}

const (
	captureActive   = 1 // CU_STREAM_CAPTURE_STATUS_ACTIVE
	setDependencies = 1 // CU_STREAM_SET_CAPTURE_DEPENDENCIES
)

func (d *Device) CaptureDependencies(s driver.Stream, nodes []driver.Node) ([]driver.Node, error) {
	call := &d.lib.streamGetCaptureInfo
	f, err := d.beginDependencies(call, s)
	if err != nil {
		return nodes, err
	}
	if err := f.call(call, uintptr(s), f.out(0), 0, 0, f.out(1), f.out(2)); err != nil {
		return nodes, d.end(f, err)
	}
	if status := uint32(f.outs[0]); status != captureActive {
		return nodes, d.end(f, f.refuse(call, driver.CodeInvalidValue, "stream %#x is not being captured: its status is %d", s, status))
	}
	// The library's array, of its handles: loaded as a pointer because it was never one of Go's.
	if first, n := *(*unsafe.Pointer)(unsafe.Pointer(&f.outs[1])), int(f.outs[2]); n > 0 {
		nodes = append(nodes, unsafe.Slice((*driver.Node)(first), n)...)
	}
	return nodes, d.end(f, nil)
}

func (d *Device) SetCaptureDependencies(s driver.Stream, nodes []driver.Node) error {
	call := &d.lib.streamUpdateCaptureDependencies
	f, err := d.beginDependencies(call, s)
	if err != nil {
		return err
	}
	err = f.callEscaping(call, uintptr(s), uintptr(unsafe.Pointer(unsafe.SliceData(nodes))), uintptr(len(nodes)), setDependencies)
	return d.end(f, err)
}

// beginDependencies is beginGraph for calls that came with CUDA 11.3.
func (d *Device) beginDependencies(call *symbol, s driver.Stream) (*frame, error) {
	f, err := d.beginGraph(call)
	if err != nil {
		return nil, err
	}
	if call.addr == 0 {
		return nil, d.end(f, f.refuse(call, driver.CodeNotSupported, "dependencies in captures need a driver for CUDA 11.3"))
	}
	if err := f.checkStream(call, s); err != nil {
		return nil, d.end(f, err)
	}
	return f, nil
}

// EndCapture keeps the executable graph alone: it needs nothing of the one that it was made of.
func (d *Device) EndCapture(s driver.Stream) (driver.Graph, error) {
	call := &d.lib.streamEndCapture
	f, err := d.beginGraph(call)
	if err != nil {
		return 0, err
	}
	if err := f.checkStream(call, s); err != nil {
		return 0, d.end(f, err)
	}
	if err := f.call(call, uintptr(s), f.out(0)); err != nil {
		return 0, d.end(f, err)
	}
	captured := f.outs[0]
	err = f.call(&d.lib.graphInstantiate, f.out(0), captured, 0)
	exec := f.outs[0]
	made := err == nil
	err = errors.Join(err, f.call(&d.lib.graphDestroy, captured))
	if err != nil && made {
		err = errors.Join(err, f.call(&d.lib.graphExecDestroy, exec))
	}
	if err = d.end(f, err); err != nil {
		return 0, err
	}
	return driver.Graph(exec), nil
}

func (d *Device) LaunchGraph(g driver.Graph, s driver.Stream) error {
	call := &d.lib.graphLaunch
	f, err := d.beginGraph(call)
	if err != nil {
		return err
	}
	if err := errors.Join(f.checkGraph(call, g), f.checkStream(call, s)); err != nil {
		return d.end(f, err)
	}
	return d.end(f, f.call(call, uintptr(g), uintptr(s)))
}

func (d *Device) DestroyGraph(g driver.Graph) error {
	call := &d.lib.graphExecDestroy
	f, err := d.beginGraph(call)
	if err != nil {
		return err
	}
	if err := f.checkGraph(call, g); err != nil {
		return d.end(f, err)
	}
	return d.end(f, f.call(call, uintptr(g)))
}

// beginGraph is begin if the library has graphs. All calls set the context, see Launch.
func (d *Device) beginGraph(call *symbol) (*frame, error) {
	f, err := d.begin(call)
	if err != nil {
		return nil, err
	}
	if d.lib.graphInstantiate.addr == 0 {
		return nil, d.end(f, f.refuse(call, driver.CodeNotSupported, "graphs need a driver for CUDA 11.4"))
	}
	return f, nil
}

func (f *frame) checkGraph(s *symbol, g driver.Graph) error {
	if g == 0 {
		return f.refuse(s, driver.CodeInvalidHandle, "no graph 0x0")
	}
	return nil
}
