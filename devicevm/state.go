package devicevm

// This file saves what a VM has learnt, and restores it.

import (
	"fmt"
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// State is what a VM has learnt: weights that it trains, its solver's memory, running statistics of batch
// normalisations, and how many runs there were, which dropout depends on. A VM of the same graph, with the same
// options, goes on from it as if there had been no break, to the bit. All fields are exported, for encoding/gob and
// the like; they are not for changing.
type State struct {
	Runs   uint64
	Steps  int // of the solver
	Values []SavedValue
}

// SavedValue is one tensor of a State.
type SavedValue struct {
	Name  string // as "weight w1", "solver w1" or "batch normalisation 1"
	Dtype string
	Shape []int
	Data  []byte // row-major, each element little-endian
}

// saved is where a SavedValue is.
type saved struct {
	SavedValue
	src  plan.Value
	slot *slot // of a weight
}

// State returns a copy of what the VM has learnt so far. What it only borrows, by WithWeightsFrom, is not part of it.
func (vm *VM) State() (State, error) {
	if err := vm.enter(); err != nil {
		return State{}, failed("State", err)
	}
	defer vm.session.mu.Unlock()
	s := State{Runs: vm.count, Steps: vm.iter}
	var down []download
	for _, v := range vm.saved() {
		v.Data = make([]byte, v.src.Bytes())
		s.Values = append(s.Values, v.SavedValue)
		switch {
		case v.slot == nil || v.slot.own != nil:
			down = append(down, download{dst: v.Data, src: v.src})
		case v.slot.node.Src.Value() == nil:
			return State{}, failed("State", nodeError(v.slot.node, "it has %w", ErrNoValue))
		default: // no run yet
			if err := v.slot.copyBound(v.Data); err != nil {
				return State{}, failed("State", err)
			}
		}
	}
	if len(down) > 0 {
		if err := vm.fetch(down); err != nil {
			return State{}, failed("State", err)
		}
	}
	return s, nil
}

// Restore makes the VM go on from a State. One of another graph, or of other options, is an error that is
// ErrMismatch, and changes nothing. If the device fails what was learnt is undefined. The nodes' own values stay as they are
// until Sync.
func (vm *VM) Restore(s State) error {
	if err := vm.enter(); err != nil {
		return failed("Restore", err)
	}
	defer vm.session.mu.Unlock()
	return failed("Restore", vm.restore(s))
}

func (vm *VM) restore(s State) error {
	if s.Steps < 0 { // Adam's means would be divided by what is below zero
		return fmt.Errorf("the state's Steps are %d, want at least 0: %w", s.Steps, ErrMismatch)
	}
	mine := vm.saved()
	if len(mine) != len(s.Values) {
		return fmt.Errorf("the state has %d values, want %d: %w", len(s.Values), len(mine), ErrMismatch)
	}
	var up []upload
	for i, v := range mine {
		got := s.Values[i]
		if got.Name != v.Name || got.Dtype != v.Dtype || !slices.Equal(got.Shape, v.Shape) || int64(len(got.Data)) != v.src.Bytes() {
			return fmt.Errorf("value %d of the state is %s, %s%v of %d bytes, want %s, %s%v of %d: %w", i,
				got.Name, got.Dtype, got.Shape, len(got.Data), v.Name, v.Dtype, v.Shape, v.src.Bytes(), ErrMismatch)
		}
	}
	for i, v := range mine {
		u := upload{bytes: s.Values[i].Data}
		if v.slot == nil {
			u.dst = vm.at.states[v.src.Index]
		} else if err := v.slot.reserve(vm.session.stream); err != nil {
			return err
		} else {
			u.dst = v.slot.own
		}
		up = append(up, u)
	}
	if len(up) > 0 {
		if err := vm.machine.do(&vm.at, up, nil, nil); err != nil {
			return err
		}
	}
	for _, v := range mine {
		if v.slot != nil {
			v.slot.let, v.slot.given, v.slot.bound = true, nil, v.slot.node.Src.Value()
		}
	}
	vm.count, vm.iter = s.Runs, s.Steps
	return nil
}

// saved lists what a State has, in an order that depends on the graph and the options alone.
func (vm *VM) saved() []saved {
	var list []saved
	add := func(name string, src plan.Value, shape tensor.Shape, s *slot) {
		list = append(list, saved{SavedValue{Name: name, Dtype: src.Dtype.String(), Shape: append([]int{}, shape...)}, src, s})
	}
	for i, s := range vm.slots {
		if s.trained && vm.trained[vm.prog.Inputs[i]] {
			add("weight "+s.node.Src.Name(), vm.prog.Where[vm.prog.Inputs[i]], s.node.Shape, s)
		}
	}
	norms := 0
	for _, step := range vm.prog.Steps {
		switch step.Op.(type) {
		case plan.Update:
			if step.Aux.N > 0 {
				add("solver "+step.Node.Src.Name(), step.Aux, step.Aux.Shape, nil)
			}
		case graph.BatchNorm:
			norms++
			if vm.opts.weights == nil {
				add(fmt.Sprint("batch normalisation ", norms), step.State, step.State.Shape, nil)
			}
		}
	}
	return list
}
