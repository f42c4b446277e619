package gpu

// This file tests what whole graphs do not reach: more than one grid of products, or of parameters, can hold.

import (
	"testing"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/devicevm/internal/graph"
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

func shorten(t *testing.T) {
	before := longest
	longest = 3
	t.Cleanup(func() { longest = before })
}

func TestProductsInSeveralGrids(t *testing.T) {
	leak.Check(t)
	shorten(t)
	const batch = 8
	values := make([]float32, 3*batch)
	for i := range 2 * batch {
		values[i] = float32(i + 1)
	}
	p := &plan.Program{Steps: []plan.Step{{
		Op: graph.MatMul{Batched: true}, In: []plan.Value{value(0, batch, 1, 1), value(batch, batch, 1, 1)}, Out: value(2*batch, batch, 1, 1),
	}}}
	got := run(t, p, values, graph.Settings{})
	for i := range batch {
		if want := values[i] * values[batch+i]; got[2*batch+i] != want {
			t.Errorf("product %d is %v, want %v", i, got[2*batch+i], want)
		}
	}
}

func TestParametersInSeveralGrids(t *testing.T) {
	leak.Check(t)
	shorten(t)
	const params = 7
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
