package gpu

// This file tests how expressions are compiled, by a model of what kernels do with them.

import (
	"slices"
	"testing"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/leak"
	"pgregory.net/rapid"
)

// Whatever the expression, its results are those of the plan's code: slots are not used again too early, what the kernel
// has computed before is found, and each result is stored in its place.
func TestInstructions(t *testing.T) {
	leak.Check(t)
	rapid.Check(t, func(t *rapid.T) {
		accumulated := rapid.Bool().Draw(t, "accumulated")
		op := &plan.Elementwise{Args: make([]plan.Arg, rapid.IntRange(1, 5).Draw(t, "args"))}
		if accumulated {
			op.Args[0].Kind = plan.Accumulated
		}
		for range rapid.IntRange(1, 12).Draw(t, "instructions") {
			register := rapid.IntRange(0, len(op.Args)+len(op.Code)-1)
			in := plan.Instr{Binary: rapid.Bool().Draw(t, "binary"), A: register.Draw(t, "a"), Kind1: graph.Neg}
			if in.Binary {
				in.B, in.Kind2 = register.Draw(t, "b"), rapid.SampledFrom([]graph.BinaryKind{graph.Add, graph.Sub, graph.Mul, graph.Mul, graph.Gte}).Draw(t, "op")
			}
			op.Code = append(op.Code, in)
		}
		for range rapid.IntRange(0, kernels.MaxResults-1).Draw(t, "more") {
			r := rapid.IntRange(0, len(op.Args)+len(op.Code)-2).Draw(t, "result")
			if !slices.Contains(op.More, r) {
				op.More = append(op.More, r)
			}
		}

		registers := make([]int64, len(op.Args))
		for i := range registers {
			registers[i] = int64(5*i - 4)
		}
		if !(accumulated && len(op.Args) == 1) && rapid.Bool().Draw(t, "a zero") {
			registers[len(op.Args)-1], op.Args[len(op.Args)-1].Zero = 0, true
		}
		operands := slices.Clone(registers)
		for _, in := range op.Code {
			if in.Binary {
				registers = append(registers, calculate(kernels.Add+kernels.Op(in.Kind2), registers[in.A], registers[in.B]))
			} else {
				registers = append(registers, calculate(kernels.Abs+kernels.Op(in.Kind1), registers[in.A], 0))
			}
		}
		want := []int64{registers[len(registers)-1]}
		for _, r := range op.More {
			want = append(want, registers[r])
		}

		code, used, err := instructions(op, accumulated)
		if err != nil {
			t.Fatal(err)
		}
		var x int64
		if accumulated {
			x = operands[0]
		}
		var read []int64
		for _, r := range used {
			read = append(read, operands[r])
		}
		if got := evaluate(code, read, x, len(want)); !slices.Equal(got, want) {
			t.Errorf("%+v\n%+v\nresults %d, want %d", op, code, got, want)
		}
	})
}

// evaluate does what the kernels do.
func evaluate(code []kernels.Instruction, operands []int64, x int64, results int) []int64 {
	var kept [kernels.Slots]int64
	out := make([]int64, results)
	find := func(at uint32) int64 {
		switch {
		case at >= kernels.Kept:
			return kept[at-kernels.Kept]
		case at == kernels.Previous:
			return x
		}
		return operands[at]
	}
	for _, in := range code {
		x = calculate(in.Op, find(in.X), find(in.Y))
		if in.Keep > 0 {
			kept[in.Keep-1] = x
		}
		if in.Store > 0 {
			out[in.Store-1] = x
		}
	}
	return out
}

func calculate(op kernels.Op, x, y int64) int64 {
	switch op {
	case kernels.Add:
		return x + y
	case kernels.Sub:
		return x - y
	case kernels.Mul:
		return x * y
	case kernels.Neg:
		return -x
	case kernels.Gte:
		if x >= y {
			return 1
		}
		return 0
	case kernels.Mask:
		return x * calculate(kernels.Gte, y, 0)
	}
	return x
}

// A rectifier is one instruction, and so is its gradient.
func TestMasks(t *testing.T) {
	leak.Check(t)
	gte := plan.Instr{Binary: true, Kind2: graph.Gte, A: 0, B: 1}
	rectifier := &plan.Elementwise{Args: []plan.Arg{{}, {Kind: plan.Scalar, Zero: true}}, Code: []plan.Instr{gte, {Binary: true, Kind2: graph.Mul, A: 0, B: 2}}}
	gradient := &plan.Elementwise{Args: []plan.Arg{{}, {Kind: plan.Scalar, Zero: true}, {}}, Code: []plan.Instr{gte, {Binary: true, Kind2: graph.Mul, A: 3, B: 2}}}
	for _, c := range []struct {
		op          *plan.Elementwise
		accumulated bool
		want        []kernels.Instruction
		used        []int
	}{
		{rectifier, false, []kernels.Instruction{{Op: kernels.Mask, X: 0, Y: 0, Store: 1}}, []int{0}},
		{rectifier, true, []kernels.Instruction{{Op: kernels.Mask, X: kernels.Previous, Y: kernels.Previous, Store: 1}}, nil},
		{gradient, false, []kernels.Instruction{{Op: kernels.Mask, X: 0, Y: 1, Store: 1}}, []int{2, 0}},
	} {
		code, used, err := instructions(c.op, c.accumulated)
		if err != nil || !slices.Equal(code, c.want) || !slices.Equal(used, c.used) {
			t.Errorf("%+v: %+v, %v, %v; want %+v", c.op, code, used, err, c.want)
		}
	}
}
