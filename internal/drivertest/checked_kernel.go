package drivertest

// This file checks modules, graphs and timing events: that each is released, and that calls use what is there.

import (
	"fmt"
	"sync"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

// The ledger's keys.
type (
	moduleKey struct {
		of *holdings
		m  driver.Module
	}
	graphKey struct {
		of *holdings
		g  driver.Graph
	}
)

// functions are the functions that a device has given out, by module.
type functions struct {
	mu sync.Mutex
	of map[driver.Function]driver.Module
}

func (f *functions) add(fn driver.Function, m driver.Module) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = make(map[driver.Function]driver.Module)
	}
	f.of[fn] = m
}

func (f *functions) has(fn driver.Function) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[fn] != 0
}

// drop forgets the functions of a module.
func (f *functions) drop(m driver.Module) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for fn, of := range f.of {
		if of == m {
			delete(f.of, fn)
		}
	}
}

func (d *checkedDevice) LoadModule(img driver.Image) (driver.Module, error) {
	m, err := d.inner.LoadModule(img)
	if err == nil {
		d.add(moduleKey{d.holdings, m}, fmt.Sprintf("module %#x of device %d", m, d.ordinal))
	}
	return m, err
}

func (d *checkedDevice) UnloadModule(m driver.Module) error {
	d.functions.drop(m)
	if !d.remove(moduleKey{d.holdings, m}) {
		d.complain("UnloadModule: no module %#x", m)
	}
	return d.inner.UnloadModule(m)
}

func (d *checkedDevice) Function(m driver.Module, name string) (driver.Function, error) {
	if !d.has(moduleKey{d.holdings, m}) {
		d.complain("Function: no module %#x", m)
	}
	f, err := d.inner.Function(m, name)
	if err == nil {
		d.functions.add(f, m)
	}
	return f, err
}

func (d *checkedDevice) Launch(f driver.Function, grid, block driver.Dim3, shared uint32, s driver.Stream, args []uint64) error {
	d.checkStream("Launch", s)
	if !d.functions.has(f) {
		d.complain("Launch: no function %#x", f)
	}
	return d.inner.Launch(f, grid, block, shared, s, args)
}

func (d *checkedDevice) BeginCapture(s driver.Stream) error {
	d.checkStream("BeginCapture", s)
	return d.inner.BeginCapture(s)
}

func (d *checkedDevice) CaptureDependencies(s driver.Stream, nodes []driver.Node) ([]driver.Node, error) {
	d.checkStream("CaptureDependencies", s)
	return d.inner.CaptureDependencies(s, nodes)
}

func (d *checkedDevice) SetCaptureDependencies(s driver.Stream, nodes []driver.Node) error {
	d.checkStream("SetCaptureDependencies", s)
	return d.inner.SetCaptureDependencies(s, nodes)
}

func (d *checkedDevice) EndCapture(s driver.Stream) (driver.Graph, error) {
	d.checkStream("EndCapture", s)
	g, err := d.inner.EndCapture(s)
	if err == nil {
		d.add(graphKey{d.holdings, g}, fmt.Sprintf("graph %#x of device %d", g, d.ordinal))
	}
	return g, err
}

func (d *checkedDevice) LaunchGraph(g driver.Graph, s driver.Stream) error {
	d.checkStream("LaunchGraph", s)
	if !d.has(graphKey{d.holdings, g}) {
		d.complain("LaunchGraph: no graph %#x", g)
	}
	return d.inner.LaunchGraph(g, s)
}

func (d *checkedDevice) DestroyGraph(g driver.Graph) error {
	if !d.remove(graphKey{d.holdings, g}) {
		d.complain("DestroyGraph: no graph %#x", g)
	}
	return d.inner.DestroyGraph(g)
}

func (d *checkedDevice) NewTimingEvent() (driver.Event, error) {
	e, err := d.inner.NewTimingEvent()
	if err == nil {
		d.add(eventKey{d.holdings, e}, fmt.Sprintf("timing event %#x of device %d", e, d.ordinal))
	}
	return e, err
}

func (d *checkedDevice) Elapsed(from, to driver.Event) (time.Duration, error) {
	d.checkEvent("Elapsed", from)
	d.checkEvent("Elapsed", to)
	return d.inner.Elapsed(from, to)
}
