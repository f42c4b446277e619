package gpu

// This file makes instructions of expressions.

import (
	"fmt"
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// line is an instruction whose registers have no places yet.
type line struct {
	op    kernels.Op
	reads []int // registers; none: what the kernel has computed
	sets  int   // the register
}

// lines are the instructions of an expression: what is accumulated, or an operand that is a result too, is copied first.
func lines(op *plan.Elementwise, accumulated bool) []line {
	var list []line
	if accumulated {
		list = append(list, line{op: kernels.Copy, sets: 0})
	}
	for _, r := range op.More {
		if r < len(op.Args) && !(accumulated && r == 0) {
			list = append(list, line{op: kernels.Copy, reads: []int{r}, sets: r})
		}
	}
	for i, in := range op.Code {
		l := line{op: kernels.Abs + kernels.Op(in.Kind1), reads: []int{in.A}, sets: len(op.Args) + i}
		if in.Binary {
			l.op, l.reads = kernels.Add+kernels.Op(in.Kind2), []int{in.A, in.B}
		}
		list = append(list, l)
	}
	return list
}

// masked makes one line of a product with a comparison with 0 that only it reads: a rectifier, or its gradient.
func masked(list []line, op *plan.Elementwise) []line {
	zero := func(r int) bool { return r < len(op.Args) && op.Args[r].Zero }
	const comparison = kernels.Add + kernels.Op(graph.Gte)
	readers, by := map[int]int{}, map[int]*line{}
	for i := range list {
		for _, r := range list[i].reads {
			readers[r]++
		}
		by[list[i].sets] = &list[i]
	}
	gone := map[int]bool{}
	for i := range list {
		l := &list[i]
		if l.op != kernels.Add+kernels.Op(graph.Mul) {
			continue
		}
		for k, r := range l.reads {
			c := by[r]
			if c == nil || c.op != comparison || readers[r] != 1 || slices.Contains(op.More, r) || !zero(c.reads[1]) {
				continue
			}
			l.op, l.reads, gone[r] = kernels.Mask, []int{l.reads[1-k], c.reads[0]}, true
			break
		}
	}
	return slices.DeleteFunc(list, func(l line) bool { return gone[l.sets] })
}

// instructions returns the instructions of an expression, and the registers of its operands, of those in use.
func instructions(op *plan.Elementwise, accumulated bool) (code []kernels.Instruction, used []int, err error) {
	store := map[int]uint32{len(op.Args) + len(op.Code) - 1: 1}
	for k, r := range op.More {
		store[r] = uint32(k) + 2
	}
	return arrange(masked(lines(op, accumulated), op), accumulated, store)
}

// arrange finds each register's place: the instruction before, a slot from its result to its last use, or, of those that no
// line sets, an operand. store has the results. With accumulated the first line's is what the kernel has.
func arrange(list []line, accumulated bool, store map[int]uint32) (code []kernels.Instruction, used []int, err error) {
	set, last := map[int]int{}, map[int]int{} // the line that sets each register, and the last that reads it, but for the next
	for i, l := range list {
		for _, r := range l.reads {
			if at, ok := set[r]; ok && at != i-1 {
				last[r] = i
			}
		}
		set[l.sets] = i
	}
	number := func(r int) uint32 {
		k := slices.Index(used, r)
		if k < 0 {
			k = len(used)
			used = append(used, r)
		}
		return uint32(k)
	}
	var slots [kernels.Slots]int // the line that frees each; 0: free
	place := map[int]uint32{}
	for i, l := range list {
		in := kernels.Instruction{Op: l.op, X: kernels.Previous, Y: kernels.Previous, Store: store[l.sets]}
		for k, r := range l.reads {
			var at uint32
			switch from, ok := set[r]; {
			case ok && from == i-1:
				at = kernels.Previous
			case ok && from < i:
				at = place[r]
			default:
				at = number(r)
			}
			if k == 0 {
				in.X = at
			} else {
				in.Y = at
			}
		}
		for k, until := range slots {
			if until == i {
				slots[k] = 0
			}
		}
		if last[l.sets] > 0 {
			k := slices.Index(slots[:], 0)
			if k < 0 {
				return nil, nil, fmt.Errorf("an expression needs more than %d intermediate results at once", kernels.Slots)
			}
			slots[k], place[l.sets], in.Keep = last[l.sets], kernels.Kept+uint32(k), uint32(k)+1
		}
		if i == 0 && accumulated && in.Keep == 0 && in.Store == 0 {
			continue // the next one has it from the kernel itself
		}
		code = append(code, in)
	}
	return code, used, nil
}
