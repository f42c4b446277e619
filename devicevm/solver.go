package devicevm

// This file adds the solver's step to the program.

import (
	"fmt"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// params returns the inputs that the solver changes.
func (vm *VM) params() ([]*graph.Node, error) {
	if vm.opts.solver == nil {
		return nil, nil
	}
	kind, err := graph.KindOf(vm.opts.solver)
	if err != nil {
		return nil, fmt.Errorf("WithSolver: %w: %w", err, ErrUnsupported)
	}
	if kind == graph.AdamW && vm.opts.bugs {
		return nil, fmt.Errorf("WithSolver: gorgonia's AdamW never changes a weight, which WithUpstreamBugs would have to do too: %w", ErrUnsupported)
	}
	if _, err := graph.SettingsOf(vm.opts.solver); err != nil {
		return nil, err
	}
	params, err := vm.find("WithSolver", vm.opts.params)
	if err != nil {
		return nil, err
	}
	if params == nil {
		for _, n := range vm.graph.Nodes {
			if _, ok := n.Op.(graph.Input); ok && n.Src.Deriv() != nil {
				params = append(params, n)
			}
		}
	}
	for _, n := range params {
		if _, ok := n.Op.(graph.Input); !ok || vm.graph.Of(n.Src.Deriv()) == nil {
			return nil, nodeError(n, "WithSolver: it has no gradient, or is not an input: call gorgonia.Grad with it before New")
		}
		if n.Dtype != tensor.Float32 && n.Dtype != tensor.Float64 {
			return nil, nodeError(n, "WithSolver: want float32 or float64: %w", ErrUnsupported)
		}
	}
	if len(params) == 0 {
		return nil, fmt.Errorf("WithSolver: no input has a gradient: call gorgonia.Grad before New")
	}
	return params, nil
}

// addUpdates appends the solver's steps, after everything that uses the weights as they were.
func (vm *VM) addUpdates(params []*graph.Node) error {
	for _, n := range params {
		kind, err := graph.KindOf(vm.opts.solver)
		if err != nil {
			return err
		}
		weight, ok := vm.prog.Where[n]
		gradient := vm.prog.Where[vm.graph.Of(n.Src.Deriv())]
		if !ok || gradient.N != weight.N || gradient.Dtype != weight.Dtype {
			return nodeError(n, "WithSolver: its gradient is %v%v: %w", gradient.Dtype, gradient.Shape, ErrMismatch)
		}
		s := plan.Step{Node: n, Op: plan.Update{Kind: kind}, In: []plan.Value{gradient}, Out: weight}
		if k := kind.Moments(); k > 0 {
			s.Aux = vm.prog.AddState(plan.StateInfo{Dtype: n.Dtype}, k*n.Size())
		}
		vm.prog.Steps = append(vm.prog.Steps, s)
	}
	return nil
}
