package gpu

// This file finds out which of a segment's work may run at once: what a piece of work has to wait for are the earlier
// ones that write what it reads or writes, or read what it writes, and nothing else. Memory that values have one after
// the other, by the plan, is no different from a value's own.
//
// So a captured step is no chain: the gradients of a layer's weights and biases run beside the chain of the
// activations' gradients, the loss's sum beside all of that.

import (
	"slices"

	"github.com/pintensor/pin/devicevm/internal/plan"
)

// span is memory from lo to hi: addresses of the device, or places in the memory that base names.
type span struct {
	base   space
	lo, hi uint64
}

func (s span) overlaps(o span) bool { return s.base == o.base && s.lo < o.hi && o.lo < s.hi }

// whole is the length of spans of what is only used as a whole: a place in a machine's memory for what differs from run
// to run, and a workspace of cuBLAS.
const whole = 1

// access is the memory that a piece of work uses.
type access struct{ reads, writes []span }

// conflicts reports whether a and an earlier piece of work must not change places.
func (a *access) conflicts(earlier *access) bool {
	return overlap(a.reads, earlier.writes) || overlap(a.writes, earlier.writes) || overlap(a.writes, earlier.reads)
}

func overlap(a, b []span) bool {
	for _, x := range a {
		if slices.ContainsFunc(b, x.overlaps) {
			return true
		}
	}
	return false
}

// work is something to issue, which waits for the earlier pieces of its segment that after lists.
type work struct {
	issue  issue
	access access
	after  []int
}

// dependencies tells what comes before what in a segment.
type dependencies struct {
	before [][]uint64 // of each piece, the set of those that it waits for, however far back
}

// add adds a piece to all, and sets what it waits for: the least that everything it conflicts with, and must, comes
// before it. must is -1 for none.
func (d *dependencies) add(all []work, w work, must int) []work {
	n := len(all)
	before := make([]uint64, (n+64)/64)
	w.after = nil
	for i := n - 1; i >= 0; i-- {
		if before[i/64]>>(i%64)&1 == 1 { // something that it waits for does
			continue
		}
		if i != must && !w.access.conflicts(&all[i].access) {
			continue
		}
		w.after = append(w.after, i)
		for k, set := range d.before[i] {
			before[k] |= set
		}
		before[i/64] |= 1 << (i % 64)
	}
	slices.Reverse(w.after)
	d.before = append(d.before, before)
	return append(all, w)
}

// enough is how much scratch memory there is before steps use what earlier ones have used, and wait for them. It is a
// variable for the tests.
var enough int64 = 64 << 20

// begin says that what is added from now on is the work of steps, piece after piece.
func (b *builder) begin(steps ...*plan.Step) {
	b.access = access{}
	b.previous = -1
	if b.base = b.used; b.base > enough {
		b.base, b.used = 0, 0
	}
	for _, s := range steps {
		for _, v := range s.Reads() {
			b.reads(ref(b.mem.At(v)), v.Bytes())
		}
		for _, v := range s.Writes() {
			b.writes(ref(b.mem.At(v)), v.Bytes())
		}
	}
}

// reads says that what is added next reads n bytes.
func (b *builder) reads(at argument, n int64) {
	if n > 0 {
		b.access.reads = append(b.access.reads, span{at.base, at.bits, at.bits + uint64(n)})
	}
}

// writes says that what is added next writes n bytes.
func (b *builder) writes(at argument, n int64) {
	if n > 0 {
		b.access.writes = append(b.access.writes, span{at.base, at.bits, at.bits + uint64(n)})
	}
}

// add adds work.
func (b *builder) add(i issue) {
	seg := &b.segments[len(b.segments)-1]
	w := work{issue: i, access: access{slices.Clone(b.access.reads), slices.Clone(b.access.writes)}}
	seg.work = b.dependencies.add(seg.work, w, b.previous)
	b.previous = len(seg.work) - 1
}
