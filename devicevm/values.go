package devicevm

// This file has Let, and the ways to ask for values.

import (
	"fmt"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/devicevm/internal/plan"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Let gives an input its value for all runs to come, until Let or gorgonia.Let gives it another.
//
// A host value, a *tensor.Dense of any layout or a scalar of Gorgonia, is copied: it may be changed, or released,
// when Let returns. An *asynccopy.Tensor is used where it is, and must not be released before the last RunAll that
// uses it has returned; it has to be on the VM's device. Neither is ever written to, so a weight that the VM's solver
// trains can't be an *asynccopy.Tensor. A weight that a solver of Gorgonia's trains is given by gorgonia.Let or
// WithValue instead: such a solver changes the value that is bound to the node, not what Let has copied.
//
// After an error the input has the value that it had, or none. The exception is a GPU that fails while it is given a
// weight that the VM's solver trains, or that VMs share: such a weight is undefined then, until it is given again. If it was
// the device that failed, the host value must not be changed until a later call on the VM has succeeded.
func (vm *VM) Let(n *G.Node, v G.Value) error {
	if err := vm.enter(); err != nil {
		return failed("Let", err)
	}
	defer vm.session.mu.Unlock()
	return failed("Let", vm.let(n, v))
}

func (vm *VM) let(n *G.Node, v G.Value) error {
	node, err := vm.node(n)
	if err != nil {
		return err
	}
	if _, ok := node.Op.(graph.Input); !ok {
		return nodeError(node, "it is not an input")
	}
	if isNil(v) {
		return nodeError(node, "the value is nil: %w", ErrNoValue)
	}
	s := vm.slotOf(node)
	if s == nil {
		return (&slot{node: node}).check(v) // nothing that is computed uses it
	}
	if err := s.check(v); err != nil {
		return err
	}
	if t, ok := v.(*asynccopy.Tensor); ok {
		return s.lend(t, n.Value(), vm.session.stream)
	}
	if s.feeds(vm) {
		if err := s.put(vm, v); err != nil {
			return err
		}
		s.let, s.bound = true, s.node.Src.Value()
		return nil
	}
	dst, err := s.target(vm)
	if err != nil {
		return err
	}
	if err := vm.machine.do(&vm.at, []upload{{dst: dst, value: v}}, nil, nil); err != nil {
		return nodeError(node, "%w", err)
	}
	if dst != s.own {
		s.own, s.spare = dst, s.own
	}
	s.let, s.given, s.bound = true, nil, s.node.Src.Value()
	return nil
}

// isNil reports whether v is nil, or a nil pointer.
func isNil(v G.Value) bool {
	switch v := v.(type) {
	case nil:
		return true
	case *tensor.Dense:
		return v == nil
	case *asynccopy.Tensor:
		return v == nil
	}
	return false
}

// node returns the node that stands for the user's.
func (vm *VM) node(n *G.Node) (*graph.Node, error) {
	if n == nil {
		return nil, fmt.Errorf("the node is nil")
	}
	if k := vm.graph.Of(n); k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("%s is not in the VM's graph", graph.Title(n))
}

// slotOf returns an input's slot, or nil if nothing uses the input.
func (vm *VM) slotOf(n *graph.Node) *slot {
	for i, in := range vm.prog.Inputs {
		if in == n {
			return vm.slots[i]
		}
	}
	return nil
}

// Value returns a copy of a node's latest value: what RunAll computed, or a weight as the solver has left it. It is
// an error that is ErrNotKept if the node's value does not outlive a run; see WithValues.
func (vm *VM) Value(n *G.Node) (G.Value, error) {
	if err := vm.enter(); err != nil {
		return nil, failed("Value", err)
	}
	defer vm.session.mu.Unlock()
	node, err := vm.node(n)
	if err != nil {
		return nil, failed("Value", err)
	}
	v, err := vm.value(node)
	return v, failed("Value", err)
}

// Grad returns a copy of the latest gradient of the cost by n, an input that gorgonia.Grad was asked for.
func (vm *VM) Grad(n *G.Node) (G.Value, error) {
	if err := vm.enter(); err != nil {
		return nil, failed("Grad", err)
	}
	defer vm.session.mu.Unlock()
	node, err := vm.node(n)
	if err != nil {
		return nil, failed("Grad", err)
	}
	d := vm.graph.Of(n.Deriv())
	if d == nil {
		return nil, failed("Grad", nodeError(node, "it has no gradient: %w", ErrNotKept))
	}
	v, err := vm.value(d)
	return v, failed("Grad", err)
}

func (vm *VM) value(n *graph.Node) (G.Value, error) {
	if c, ok := n.Op.(graph.Const); ok {
		return G.CloneValue(c.Value)
	}
	src, ok := vm.prog.Where[n]
	if !ok {
		return nil, nodeError(n, "%w: name the node in WithValues", ErrNotKept)
	}
	v := host.New(n.Dtype, n.Shape)
	if err := vm.fetch([]download{{dst: host.Bytes(v), src: src}}); err != nil {
		return nil, err
	}
	return v, nil
}

// fetch copies values to the host.
func (vm *VM) fetch(down []download) (err error) {
	defer func() { vm.forgetInputs(err != nil) }()
	for _, d := range down {
		if d.src.Space != plan.Input {
			if vm.count == 0 && d.src.Space == plan.Arena {
				return fmt.Errorf("%w before the first RunAll", ErrNoValue)
			}
			continue
		}
		s := vm.slots[d.src.Index]
		vm.at.inputs[d.src.Index] = s.current()
		switch {
		case s.current() == nil:
			return nodeError(s.node, "it has %w", ErrNoValue)
		case s.given != nil:
			if err := s.use(vm.session.stream); err != nil {
				return err
			}
			defer vm.session.stream.Used(s.given) // an error of the stream's comes back from do, too
		}
	}
	return vm.machine.do(&vm.at, nil, nil, down)
}

// current returns the tensor that has the slot's value now, or nil.
func (s *slot) current() *asynccopy.Tensor {
	if s.given != nil {
		return s.given
	}
	return s.own
}

// Sync brings what the VM's solver has trained back to the host, into the very tensors that are the nodes' values, as
// a solver of Gorgonia's would have left them; and running statistics of batch normalisations into their layers,
// where BatchNormOp.Stats finds them. Without either it does nothing.
func (vm *VM) Sync() error {
	if err := vm.enter(); err != nil {
		return failed("Sync", err)
	}
	defer vm.session.mu.Unlock()
	return failed("Sync", vm.sync())
}
