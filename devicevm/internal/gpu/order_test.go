package gpu

// This file tests what waits for what.

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/emulate"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
	"pgregory.net/rapid"
)

// What conflicts comes in order, and nothing is waited for that something else waits for already.
func TestDependencies(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(t *rapid.T) {
		spans := func(name string) []span {
			var list []span
			for range rapid.IntRange(0, 2).Draw(t, name) {
				lo := rapid.Uint64Range(0, 12).Draw(t, "lo")
				list = append(list, span{space(rapid.IntRange(0, 1).Draw(t, "base")), lo, lo + rapid.Uint64Range(1, 4).Draw(t, "bytes")})
			}
			return list
		}
		var all []work
		var d dependencies
		musts := map[int]int{}
		for i := range rapid.IntRange(1, 70).Draw(t, "n") {
			must := rapid.IntRange(-1, i-1).Draw(t, "must")
			musts[i] = must
			all = d.add(all, work{access: access{spans("reads"), spans("writes")}}, must)
		}
		reach := make([]map[int]bool, len(all)) // what comes before each
		for i, w := range all {
			reach[i] = map[int]bool{}
			for _, j := range w.after {
				if j >= i {
					t.Fatalf("%d waits for %d", i, j)
				}
				reach[i][j] = true
				for k := range reach[j] {
					reach[i][k] = true
				}
			}
			for _, j := range w.after {
				for _, k := range w.after {
					if reach[k][j] {
						t.Fatalf("%d waits for %d, and for %d, which does", i, j, k)
					}
				}
				if j != musts[i] && !conflict(all[i].access, all[j].access) {
					t.Fatalf("%d waits for %d: %v, %v", i, j, all[i].access, all[j].access)
				}
			}
			for j := range i {
				if (j == musts[i] || conflict(all[i].access, all[j].access)) && !reach[i][j] {
					t.Fatalf("%d does not wait for %d: %v, %v", i, j, all[i].access, all[j].access)
				}
			}
		}
	})
}

// conflict looks at each byte.
func conflict(a, b access) bool {
	type place struct {
		base space
		at   uint64
	}
	used := func(list []span) map[place]bool {
		all := map[place]bool{}
		for _, s := range list {
			for at := s.lo; at < s.hi; at++ {
				all[place{s.base, at}] = true
			}
		}
		return all
	}
	both := func(x, y map[place]bool) bool {
		for p := range x {
			if y[p] {
				return true
			}
		}
		return false
	}
	return both(used(a.writes), used(b.writes)) || both(used(a.reads), used(b.writes)) || both(used(a.writes), used(b.reads))
}

// Sums that are done in two passes do not spoil each other's parts, in whatever order they run: with scratch memory for
// each, and with less.
func TestScratchIsNotShared(t *testing.T) {
	for _, most := range []int64{enough, 1} {
		t.Run(fmt.Sprint("enough=", most), func(t *testing.T) {
			leak.Check(t)
			defer func(before int64) { enough = before }(enough)
			enough = most
			const sums, n = 5, 10000
			values := make([]float32, sums*(n+1))
			p := &plan.Program{}
			for i := range sums {
				for k := range n {
					values[i*n+k] = float32(i + k%3)
				}
				p.Steps = append(p.Steps, plan.Step{Op: graph.Sum{Along: []int{0}}, In: []plan.Value{value(i*n, n)}, Out: value(sums*n + i)})
				p.Steps[i].Out.N = 1
			}
			got := run(t, p, values, graph.Settings{})
			for i := range sums {
				want := float32(0)
				for k := range n {
					want += float32(i + k%3)
				}
				if got[sums*n+i] != want {
					t.Errorf("sum %d is %v, want %v", i, got[sums*n+i], want)
				}
			}
			c, err := compile(p, Memory{Inputs: []driver.DevicePtr{4096}}, false, false, false)
			check(t, err)
			free := 0
			for _, w := range c.segments[0].work {
				if len(w.after) == 0 {
					free++
				}
			}
			if most > 1 && free != sums || most == 1 && free != 1 {
				t.Errorf("%d sums wait for nothing", free)
			}
		})
	}
}

// Products of cuBLAS that may run at once work in different memory.
func TestWorkspaces(t *testing.T) {
	leak.Check(t)
	const products = 2*workspaces + 1
	before := quick
	quick = func(product, bool) bool { return false }
	t.Cleanup(func() { quick = before })
	p := &plan.Program{}
	for i := range products {
		p.Steps = append(p.Steps, plan.Step{
			Op: graph.MatMul{}, In: []plan.Value{value(0, 2, 2), value(4, 2, 2)}, Out: value(8+4*i, 2, 2),
		})
	}
	c, err := compile(p, Memory{Inputs: []driver.DevicePtr{4096}}, true, false, false)
	check(t, err)
	for i, w := range c.segments[0].work {
		var want []int
		if i >= workspaces {
			want = []int{i - workspaces}
		}
		if !slices.Equal(w.after, want) {
			t.Errorf("product %d waits for %v, want %v", i, w.after, want)
		}
	}
}

// Code that needs more scratch memory than what came before it gets more, and what came before it runs as it did.
func TestScratchGrows(t *testing.T) {
	leak.Check(t)
	dev, err := asynccopy.OpenDriver(emulate.Open(t), 0)
	check(t, err)
	s, err := dev.NewStream()
	check(t, err)
	m, err := Open(s)
	check(t, err)
	var codes []*Code
	var memory []*asynccopy.Tensor
	sizes := []int{10000, 50000, 20000}
	for _, n := range sizes {
		values := make([]float32, n+1)
		for i := range n {
			values[i] = 1
		}
		x, err := s.ToDevice(tensor.New(tensor.WithBacking(values)), false)
		check(t, err)
		sum := plan.Step{Op: graph.Sum{Along: []int{0}}, In: []plan.Value{value(0, n)}, Out: value(n)}
		sum.Out.N = 1
		c, err := m.Compile(&plan.Program{Steps: []plan.Step{sum}}, Memory{Inputs: []driver.DevicePtr{driver.DevicePtr(x.DevicePtr())}}, false, false)
		check(t, err)
		codes, memory = append(codes, c), append(memory, x)
	}
	if len(m.scratch) != 2 {
		t.Errorf("%d blocks of scratch memory, want one for the first and a larger one for the others", len(m.scratch))
	}
	for range 2 {
		for i, n := range sizes {
			check(t, m.Run(codes[i], plan.Run{}))
			check(t, m.Synchronize())
			out := tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(n+1))
			_, err = s.ToHostInto(out, memory[i], false)
			check(t, err)
			if got := out.Float32s()[n]; got != float32(n) {
				t.Errorf("the sum of %d ones is %v", n, got)
			}
		}
	}
	for i, c := range codes {
		check(t, m.Free(c))
		check(t, memory[i].Release())
	}
	for _, release := range []func() error{m.Close, s.Close, dev.Close} {
		check(t, release())
	}
}
