package gpu

// This file tests that values may have memory one after the other, whatever the order of what does not depend on it.

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A step gives the same bits with values that share memory as with each in its own, in several runs of its graph.
func TestSharedMemory(t *testing.T) {
	leak.Check(t)
	l := &layers{t: t, g: G.NewGraph()}
	x := l.must(G.Rectify(l.dense(l.input("x", 6, 10), 8)))
	x = l.must(G.Rectify(l.dense(x, 7)))
	var results [2][]float32
	var sizes [2]int64
	logits := l.dense(x, 5)
	for i := range results {
		g, p := l.plan(logits, plan.Options{Share: i > 0})
		logits, sizes[i] = nil, p.ArenaSize
		values := execute(t, p)
		for _, n := range plan.Roots(g) {
			at := p.Where[n]
			results[i] = append(results[i], values[at.Off/4:][:at.N]...)
		}
	}
	if sizes[1] >= sizes[0] {
		t.Errorf("%d bytes shared, %d not", sizes[1], sizes[0])
	}
	if !slices.Equal(results[0], results[1]) {
		t.Errorf("%v with values in memory of their own, %v in shared memory", results[0], results[1])
	}
}

// execute runs a program of float32 some times, and returns its arena.
func execute(t *testing.T, p *plan.Program) []float32 {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	dev, err := asynccopy.OpenDriver(emulate.Open(t), 0)
	check(t, err)
	s, err := dev.NewStream()
	check(t, err)
	m, err := Open(s)
	check(t, err)
	var tensors []*asynccopy.Tensor
	upload := func(d *tensor.Dense) driver.DevicePtr {
		x, err := s.ToDevice(d, false)
		check(t, err)
		tensors = append(tensors, x)
		return driver.DevicePtr(x.DevicePtr())
	}
	var mem Memory
	for _, n := range p.Inputs {
		data := make([]float32, n.Size())
		for i := range data {
			data[i] = float32(rng.NormFloat64())
		}
		mem.Inputs = append(mem.Inputs, upload(tensor.New(tensor.WithBacking(data))))
	}
	for _, c := range p.Consts {
		mem.Consts = append(mem.Consts, upload(tensor.New(tensor.WithBacking(c))))
	}
	arena := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(int(p.ArenaSize/4)))
	mem.Arena = upload(arena)
	c, err := m.Compile(p, mem, false, false)
	check(t, err)
	for range 3 {
		check(t, m.Run(c, plan.Run{}))
	}
	check(t, m.Synchronize())
	_, err = s.ToHostInto(arena, tensors[len(tensors)-1], false)
	check(t, err)
	check(t, m.Free(c))
	for _, x := range tensors {
		check(t, x.Release())
	}
	for _, release := range []func() error{m.Close, s.Close, dev.Close} {
		check(t, release())
	}
	return arena.Float32s()
}
