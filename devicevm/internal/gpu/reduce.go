package gpu

// This file compiles sums and maxima along axes.

import (
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
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
		least := 64 // elements of a part
		units := p.outer * p.inner / kernels.Threads
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
		if p.inner == 1 {
			b.launch(kind+"_rows", out.Dtype, blocks(p.outer*p.parts), from, to, number(p.n), number(p.part), number(p.parts))
		} else {
			b.launch(kind+"_columns", out.Dtype, columns(p.size()), from, to,
				number(p.n), number(p.inner), number(p.part), number(p.parts), number(p.outer))
		}
		from = to
	}
}

// constant is the reduction of nothing.
func (b *builder) constant(out plan.Value, kind string) {
	if kind == "sum" {
		b.clear(ref(b.mem.At(out)), 0, out.Bytes())
		return
	}
	// The largest of nothing: a part of no elements.
	b.launch("max_rows", out.Dtype, blocks(out.N), ref(b.mem.At(out)), ref(b.mem.At(out)), number(0), number(0), number(1))
}

// columns is a grid with a thread for each of n results.
func columns(n int) driver.Dim3 { return blocks(min((n+kernels.Threads-1)/kernels.Threads, 4*busy)) }
