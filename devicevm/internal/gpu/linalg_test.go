package gpu

// This file tests what whole graphs do not reach: products in parts after a failed run, and more parameters than one launch takes.

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

// run runs a program whose values are all in the one array of float32 that is its first input, and returns the array.
func run(t *testing.T, p *plan.Program, values []float32, settings graph.Settings) []float32 {
	t.Helper()
	dev, err := asynccopy.OpenDriver(emulate.Open(t), 0)
	check(t, err)
	s, err := dev.NewStream()
	check(t, err)
	m, err := Open(s)
	check(t, err)
	x, err := s.ToDevice(tensor.New(tensor.WithBacking(values)), false)
	check(t, err)
	c, err := m.Compile(p, Memory{Inputs: []driver.DevicePtr{driver.DevicePtr(x.DevicePtr())}}, false, false)
	check(t, err)
	check(t, m.Run(c, plan.Run{Iter: 1, Settings: settings}))
	check(t, m.Synchronize())
	out := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(len(values)))
	_, err = s.ToHostInto(out, x, false)
	check(t, err)
	for _, release := range []func() error{func() error { return m.Free(c) }, x.Release, m.Close, s.Close, dev.Close} {
		check(t, release())
	}
	return out.Float32s()
}

// value is n values from the element at on.
func value(at int, shape ...int) plan.Value {
	return plan.Value{Space: plan.Input, Off: int64(at) * int64(unsafe.Sizeof(float32(0))), Dtype: tensor.Float32, Shape: shape, N: tensor.Shape(shape).TotalSize()}
}

// A product whose k is divided among blocks counts which have arrived. What a run that failed has left does not matter.
func TestProductAfterAFailedRun(t *testing.T) {
	leak.Check(t)
	const m, n, k = 3, 2, 1000
	values := make([]float32, m*k+k*n+m*n)
	want := make([]float32, m*n)
	for i := range m * k {
		values[i] = float32(i/k + 1)
	}
	for i := range k * n {
		values[m*k+i] = float32(i%n + 1)
	}
	for i := range want {
		want[i] = k * float32(i/n+1) * float32(i%n+1)
	}
	p := &plan.Program{Steps: []plan.Step{{
		Op: graph.MatMul{}, In: []plan.Value{value(0, m, k), value(m*k, k, n)}, Out: value(m*k+k*n, m, n),
	}}}
	dev, err := asynccopy.OpenDriver(emulate.Open(t), 0)
	check(t, err)
	s, err := dev.NewStream()
	check(t, err)
	machine, err := Open(s)
	check(t, err)
	x, err := s.ToDevice(tensor.New(tensor.WithBacking(values)), false)
	check(t, err)
	c, err := machine.Compile(p, Memory{Inputs: []driver.DevicePtr{driver.DevicePtr(x.DevicePtr())}}, false, false)
	check(t, err)
	for i := range 3 {
		if i == 2 {
			check(t, machine.issue("test", func(s driver.Stream) error { return machine.dev.Memset(c.tableMem, 0xFF, int64(len(c.table)), s, 0) }))
			c.unsure = true
		}
		check(t, machine.Run(c, plan.Run{}))
		check(t, machine.Synchronize())
		out := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(len(values)))
		_, err = s.ToHostInto(out, x, false)
		check(t, err)
		if got := out.Float32s()[m*k+k*n:]; !slices.Equal(got, want) {
			t.Errorf("run %d: %v, want %v", i, got, want)
		}
		check(t, machine.issue("test", func(s driver.Stream) error {
			return machine.dev.Memset(c.mem.At(p.Steps[0].Out), 0, p.Steps[0].Out.Bytes(), s, 0)
		}))
	}
	for _, release := range []func() error{func() error { return machine.Free(c) }, x.Release, machine.Close, s.Close, dev.Close} {
		check(t, release())
	}
}

func TestParametersInSeveralLaunches(t *testing.T) {
	leak.Check(t)
	const params = 2*kernels.MaxParameters + 3
	values := make([]float32, 2*params)
	p := &plan.Program{}
	for i := range params {
		values[i], values[params+i] = float32(i), float32(i+1)
		p.Steps = append(p.Steps, plan.Step{Op: plan.Update{Kind: graph.SGD}, In: []plan.Value{value(params+i, 1)}, Out: value(i, 1)})
	}
	got := run(t, p, values, graph.Settings{LearnRate: 0.5})
	for i := range params {
		if want := values[i] - 0.5*values[params+i]; got[i] != want {
			t.Errorf("weight %d is %v, want %v", i, got[i], want)
		}
	}
}
