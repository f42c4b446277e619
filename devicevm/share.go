package devicevm

// This file finds the weights that VMs share, and keeps what lives from run to run.

import (
	"fmt"
	"slices"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// takeSlots makes the slots of the inputs, or shares them.
func (vm *VM) takeSlots() error {
	for _, n := range vm.prog.Inputs {
		s, err := vm.shared(n)
		if err != nil {
			return err
		}
		if s == nil {
			s = &slot{node: n}
		}
		if vm.trained[n] {
			if s.refs > 0 {
				return nodeError(n, "WithSolver: it is a weight of the other VM, which WithWeightsFrom only reads")
			}
			s.trained = true
		}
		s.refs++
		vm.slots = append(vm.slots, s)
	}
	return nil
}

// shared returns the slot of the other VM that n is the same weight as, or nil.
func (vm *VM) shared(n *graph.Node) (*slot, error) {
	if vm.opts.weights == nil {
		return nil, nil
	}
	var named, valued []*slot
	for _, s := range vm.opts.weights.slots {
		if s.node.Src.Deriv() == nil {
			continue
		}
		if v := n.Src.Value(); v != nil && v == s.node.Src.Value() {
			valued = append(valued, s)
		}
		if n.Src.Name() == s.node.Src.Name() {
			named = append(named, s)
		}
	}
	same := valued
	if len(same) == 0 {
		same = named
	}
	switch {
	case len(same) == 0:
		return nil, nil
	case len(same) > 1:
		return nil, nodeError(n, "WithWeightsFrom: %d weights of the other VM have this name: name each differently", len(same))
	case n.Dtype != same[0].node.Dtype || !slices.Equal(n.Shape, same[0].node.Shape):
		return nil, nodeError(n, "WithWeightsFrom: the other VM's is %v%v: %w", same[0].node.Dtype, same[0].node.Shape, ErrMismatch)
	}
	return same[0], nil
}

// unshared looks for a weight that has no counterpart in the other VM, while one of that is not used here and has the
// same dtype and shape: then their names were meant to be the same.
func (vm *VM) unshared() error {
	others := vm.opts.weights.slots
	for _, s := range vm.slots {
		if slices.Contains(others, s) || s.node.Src.Value() == nil {
			continue
		}
		for _, o := range others {
			if !slices.Contains(vm.slots, o) && o.node.Src.Deriv() != nil && o.node.Dtype == s.node.Dtype && slices.Equal(o.node.Shape, s.node.Shape) {
				return nodeError(s.node, "WithWeightsFrom: it would keep its own value, and weight %q of the other VM not be used: give them the same name: %w",
					o.node.Src.Name(), ErrMismatch)
			}
		}
	}
	return nil
}

// borrows reports whether anything of the other VM is shared.
func (vm *VM) borrows() bool {
	return slices.ContainsFunc(vm.slots, func(s *slot) bool { return s.refs > 1 }) ||
		slices.ContainsFunc(vm.states, func(s *state) bool { return s.refs > 1 })
}

// weightNames returns the names of the inputs that others may share.
func (vm *VM) weightNames() []string {
	var names []string
	for _, s := range vm.slots {
		if s.node.Src.Deriv() != nil {
			names = append(names, s.node.Src.Name())
		}
	}
	return names
}

// state is memory that lives from run to run.
type state struct {
	info plan.StateInfo
	mem  *asynccopy.Tensor
	refs int // VMs
}

func (s *state) release() error {
	s.refs--
	if s.refs > 0 || s.mem == nil {
		return nil
	}
	mem := s.mem
	s.mem = nil
	return mem.Release()
}

// takeStates makes the states, or shares those of batch normalisations, and adds their first contents to up.
func (vm *VM) takeStates(up []upload) ([]upload, error) {
	var others []*state
	if vm.opts.weights != nil {
		for _, s := range vm.opts.weights.states {
			if s.info.Norm != nil {
				others = append(others, s)
			}
		}
	}
	norms := 0
	for _, info := range vm.prog.States {
		s := &state{info: info}
		if info.Norm != nil && len(others) > 0 {
			if norms == len(others) || others[norms].info.Bytes != info.Bytes || others[norms].info.Dtype != info.Dtype {
				return up, fmt.Errorf("WithWeightsFrom: batch normalisation %d is not one of the other VM's: %w", norms+1, ErrMismatch)
			}
			s = others[norms]
			norms++
		}
		s.refs++
		vm.states = append(vm.states, s)
		if s.mem == nil {
			mem, err := vm.session.stream.Empty(tensor.Byte, int(info.Bytes))
			if err != nil {
				return up, fmt.Errorf("%d bytes that live from run to run: %w", info.Bytes, err)
			}
			s.mem = mem
			first, err := firstState(info)
			if err != nil {
				return up, err
			}
			up = append(up, upload{dst: mem, bytes: first})
		}
		vm.at.states = append(vm.at.states, s.mem)
	}
	return up, nil
}

// firstState returns what a state is at first: a solver's moments zero, a layer's statistics those that it has, or
// if it never had any a mean of 0 and a variance of 1, with which tapeMachine begins too.
func firstState(info plan.StateInfo) ([]byte, error) {
	data := make([]byte, info.Bytes)
	if info.Norm == nil {
		return data, nil
	}
	mean, variance := info.Norm.Op.Stats()
	half := len(data) / 2
	if err := host.Copy(data[:half], mean, info.Dtype); err != nil {
		return nil, fmt.Errorf("running mean: %w", err)
	}
	if err := host.Copy(data[half:], variance, info.Dtype); err != nil {
		return nil, fmt.Errorf("running variance: %w", err)
	}
	for _, b := range data {
		if b != 0 {
			return data, nil
		}
	}
	one := tensor.Ones(info.Dtype, half/int(info.Dtype.Size()))
	return data, host.Copy(data[half:], one, info.Dtype)
}
