package drivertest

// This file passes the calls on that have to do with kernels, graphs and times, and don't fail.

import (
	"errors"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

func (d *faultyDevice) LoadModule(img driver.Image) (driver.Module, error) {
	if err := d.faults.before("LoadModule"); err != nil {
		return 0, err
	}
	return d.inner.LoadModule(img)
}

func (d *faultyDevice) UnloadModule(m driver.Module) error {
	if err := d.faults.before("UnloadModule"); err != nil {
		return err
	}
	return d.inner.UnloadModule(m)
}

func (d *faultyDevice) Function(m driver.Module, name string) (driver.Function, error) {
	if err := d.faults.before("Function"); err != nil {
		return 0, err
	}
	return d.inner.Function(m, name)
}

func (d *faultyDevice) Launch(f driver.Function, grid, block driver.Dim3, shared uint32, s driver.Stream, args []uint64) error {
	if err := d.faults.before("Launch"); err != nil {
		return err
	}
	return d.inner.Launch(f, grid, block, shared, s, args)
}

func (d *faultyDevice) BeginCapture(s driver.Stream) error {
	if err := d.faults.before("BeginCapture"); err != nil {
		return err
	}
	return d.inner.BeginCapture(s)
}

func (d *faultyDevice) CaptureDependencies(s driver.Stream, nodes []driver.Node) ([]driver.Node, error) {
	if err := d.faults.before("CaptureDependencies"); err != nil {
		return nodes, err
	}
	return d.inner.CaptureDependencies(s, nodes)
}

func (d *faultyDevice) SetCaptureDependencies(s driver.Stream, nodes []driver.Node) error {
	if err := d.faults.before("SetCaptureDependencies"); err != nil {
		return err
	}
	return d.inner.SetCaptureDependencies(s, nodes)
}

func (d *faultyDevice) EndCapture(s driver.Stream) (driver.Graph, error) {
	failed := d.faults.before("EndCapture")
	g, err := d.inner.EndCapture(s) // which ends the capture also where it fails
	if failed != nil {
		if err == nil {
			failed = errors.Join(failed, d.inner.DestroyGraph(g))
		}
		return 0, failed
	}
	return g, err
}

func (d *faultyDevice) LaunchGraph(g driver.Graph, s driver.Stream) error {
	if err := d.faults.before("LaunchGraph"); err != nil {
		return err
	}
	return d.inner.LaunchGraph(g, s)
}

func (d *faultyDevice) DestroyGraph(g driver.Graph) error {
	if err := d.faults.before("DestroyGraph"); err != nil {
		return err
	}
	return d.inner.DestroyGraph(g)
}

func (d *faultyDevice) NewTimingEvent() (driver.Event, error) {
	if err := d.faults.before("NewTimingEvent"); err != nil {
		return 0, err
	}
	return d.inner.NewTimingEvent()
}

func (d *faultyDevice) Elapsed(from, to driver.Event) (time.Duration, error) {
	if err := d.faults.before("Elapsed"); err != nil {
		return 0, err
	}
	return d.inner.Elapsed(from, to)
}
