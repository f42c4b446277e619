package plan

// This file gives intermediate results their places in the arena.
//
// A place is free again after the last step that reads it. Each value takes the lowest gap that is large enough. Values
// that are kept keep their place. But a step that writes where another value was has to wait for all that read it, and
// devices run at once what need not wait, so values only share memory where that saves much.

import "slices"

// alignment is what device memory wants, and what keeps values in cache lines of their own.
const alignment = 256

// apart is how large the arena may always be without any sharing: caches of devices hold it.
const apart = 32 << 20

// span is a place in the arena that is in use until after the step last.
type span struct {
	off, end int64
	last     int
}

// allocate replaces the numbers of the values in the arena by offsets.
func (b *builder) allocate() {
	lasts := b.lifetimes()
	if !b.Share && b.total() <= max(apart, b.Apart) {
		for v := range lasts {
			lasts[v] = len(b.prog.Steps)
		}
	}
	offsets := map[int64]int64{}
	var used []span // by offset
	b.prog.ArenaSize = 0
	place := func(v *Value, step int) {
		if v.Space != Arena || v.N == 0 {
			return
		}
		off, ok := offsets[v.Off]
		if !ok {
			var at int
			off, at = gap(used, v.Bytes())
			end := off + v.Bytes()
			used = slices.Insert(used, at, span{off, end, lasts[v.Off]})
			offsets[v.Off] = off
			b.prog.ArenaSize = max(b.prog.ArenaSize, end)
		}
		v.Off = off
	}
	for i := range b.prog.Steps {
		s := &b.prog.Steps[i]
		for k := range s.In {
			place(&s.In[k], i)
		}
		place(&s.Out, i)
		for k := range s.More {
			place(&s.More[k].Value, i)
		}
		place(&s.Aux, i)
		used = slices.DeleteFunc(used, func(u span) bool { return u.last <= i })
	}
	for n, v := range b.places {
		if off, ok := offsets[v.Off]; ok && v.Space == Arena {
			v.Off = off
			b.places[n] = v
		}
	}
}

// total is the size of the arena without sharing.
func (b *builder) total() (n int64) {
	for i := range b.prog.Steps {
		s := &b.prog.Steps[i]
		for _, v := range append(s.results(), s.Aux) {
			if v.Space == Arena && v.N > 0 {
				n += (v.Bytes() + alignment - 1) / alignment * alignment
			}
		}
	}
	return n
}

// lifetimes returns the last step that uses each value in the arena.
func (b *builder) lifetimes() map[int64]int {
	lasts := map[int64]int{}
	for i, s := range b.prog.Steps {
		for _, v := range append(append(slices.Clone(s.In), s.results()...), s.Aux) {
			if v.Space == Arena && v.N > 0 {
				lasts[v.Off] = i
			}
		}
	}
	for _, n := range b.Roots {
		if v := b.places[n]; v.Space == Arena {
			lasts[v.Off] = len(b.prog.Steps)
		}
	}
	return lasts
}

// gap returns the lowest free offset for n bytes, and where it belongs in the list.
func gap(used []span, n int64) (off int64, at int) {
	for i, u := range used {
		if u.off-off >= n {
			return off, i
		}
		off = (u.end + alignment - 1) / alignment * alignment
	}
	return off, len(used)
}
