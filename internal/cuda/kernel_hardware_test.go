package cuda

// This file measures launches on real hardware.

import (
	"fmt"
	"testing"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
)

// BenchmarkHardwareLaunch launches kernels that end at once, one by one and as a graph.
func BenchmarkHardwareLaunch(b *testing.B) {
	drv := hardware(b)
	d, err := drv.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewStream(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.DestroyStream(s)
	m, err := d.LoadModule(drivertest.Image)
	if err != nil {
		b.Fatal(err)
	}
	defer d.UnloadModule(m)
	f, err := d.Function(m, "spin")
	if err != nil {
		b.Fatal(err)
	}
	args := []uint64{0}
	launch := func() {
		if err := d.Launch(f, driver.Dim3{X: 1}, driver.Dim3{X: 1}, 0, s, args); err != nil {
			b.Fatal(err)
		}
	}
	run := func(name string, issue func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				issue()
			}
			if err := d.SyncStream(s); err != nil {
				b.Fatal(err)
			}
		})
	}
	run("call=Launch", launch)
	for _, kernels := range []int{1, 17} {
		if err := d.BeginCapture(s); err != nil {
			b.Fatal(err)
		}
		for range kernels {
			launch()
		}
		g, err := d.EndCapture(s)
		if err != nil {
			b.Fatal(err)
		}
		defer d.DestroyGraph(g)
		run(fmt.Sprintf("call=LaunchGraph/kernels=%d", kernels), func() {
			if err := d.LaunchGraph(g, s); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkHardwareLoadModule compiles two small kernels.
func BenchmarkHardwareLoadModule(b *testing.B) {
	drv := hardware(b)
	d, err := drv.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for b.Loop() {
		m, err := d.LoadModule(drivertest.Image)
		if err != nil {
			b.Fatal(err)
		}
		if err := d.UnloadModule(m); err != nil {
			b.Fatal(err)
		}
	}
}
