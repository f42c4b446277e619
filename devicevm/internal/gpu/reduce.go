package gpu

// This file compiles sums and maxima along axes.

import (
	"math/bits"

	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// pass is a reduction of n in (outer, n, inner), in parts.
type pass struct{ outer, n, inner, part, parts int }

func (p pass) size() int { return p.outer * p.parts * p.inner }

// passes lists the reductions of groups, the innermost first. A long one is done in two, so that there is work for all
// of a device: how it is divided depends on the shape alone.
func passes(groups []plan.Axes) []pass {
	var list []pass
	for i := len(groups) - 1; i >= 0; i-- {
		if !groups[i].Reduced {
			continue
		}
		p := pass{outer: 1, n: groups[i].N, inner: 1}
		for _, g := range groups[:i] {
			p.outer *= g.N
		}
		for _, g := range groups[i+1:] {
			if !g.Reduced {
				p.inner *= g.N
			}
		}
		w := width(p.outer, p.inner)
		least, units := 64*(kernels.Threads/w), p.outer*((p.inner+w-1)/w) // elements of a part, blocks of one
		if p.inner == 1 {
			least, units = 4096, p.outer
		}
		p.parts = max(min(p.n/least, busy/max(units, 1)), 1)
		p.part = (p.n + p.parts - 1) / p.parts
		p.parts = (p.n + p.part - 1) / p.part
		list = append(list, p)
		if p.parts > 1 {
			list = append(list, pass{outer: p.outer, n: p.parts, inner: p.inner, part: p.parts, parts: 1})
		}
	}
	return list
}

func (b *builder) reduce(s *plan.Step, along []int, kind string) {
	in, out := s.In[0], s.Out
	if in.N == 0 {
		b.constant(out, kind)
		return
	}
	list := passes(plan.MergeAxes(in.Shape, along))
	if len(list) == 0 {
		b.copy(out, in)
		return
	}
	from, end := ref(b.mem.At(in)), int64(0)
	for i, p := range list {
		to := ref(b.mem.At(out))
		if i < len(list)-1 {
			to, end = b.reserve(end, int64(p.size())*int64(out.Dtype.Size()))
		}
		b.pass(kind, out.Dtype, p, from, to)
		from = to
	}
}

// pass adds a pass of a reduction.
func (b *builder) pass(kind string, dt tensor.Dtype, p pass, from, to argument) {
	if p.inner == 1 {
		rows, each := p.outer*p.parts, inOneBlock(p.part)
		b.launch(kind+"_rows", dt, blocks((rows+each-1)/each), from, to, number(p.outer), number(p.n), number(p.part), number(p.parts), number(each))
		return
	}
	w := width(p.outer, p.inner)
	b.launch(kind+"_columns", dt, blocks(p.outer*p.parts*((p.inner+w-1)/w)), from, to,
		number(p.n), number(p.inner), number(p.part), number(p.parts), number(w))
}

// inOneBlock is how many rows of n elements a block reduces at once: one, or one with each warp.
func inOneBlock(n int) int {
	if n > 1024 {
		return 1
	}
	return kernels.Threads / 32
}

// width is how many of so many columns a block reduces: fewer, and so more threads for each, if there are few blocks, but
// no fewer than are read together.
func width(outer, columns int) int {
	w := min(1<<bits.Len(uint(columns-1)), 32)
	for w > 8 && outer*(columns/w) < busy/2 {
		w /= 2
	}
	return w
}

// constant is the reduction of nothing.
func (b *builder) constant(out plan.Value, kind string) {
	if kind == "sum" {
		b.clear(ref(b.mem.At(out)), 0, out.Bytes())
		return
	}
	// The largest of nothing: a part of no elements.
	b.launch("max_rows", out.Dtype, blocks(out.N), ref(b.mem.At(out)), ref(b.mem.At(out)), number(out.N), number(0), number(0), number(1), number(1))
}
