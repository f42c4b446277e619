package devicevm

// This file brings results to where Gorgonia's user looks for them: nodes, gradients, and the variables of Read.

import (
	"fmt"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/host"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// outputs are the host values that runs fill.
type outputs struct {
	list []output
	down []download // one for each of list
}

// output is a host value, and where it is shown.
type output struct {
	value G.Value
	node  *graph.Node // bound to it; nil if it is
	grad  *graph.Node // the gradient of it; nil if it is
	into  *G.Value    // of a Read; nil if it is
}

// init finds out what is shown.
func (o *outputs) init(vm *VM) {
	add := func(n *graph.Node, out output) {
		src, ok := vm.prog.Where[n]
		if !ok {
			return
		}
		shaped := n
		if out.grad != nil {
			shaped = out.grad
		}
		if shaped.Size() != n.Size() || shaped.Dtype != n.Dtype {
			shaped = n
		}
		out.value = host.New(n.Dtype, shaped.Shape)
		o.list = append(o.list, out)
		o.down = append(o.down, download{dst: host.Bytes(out.value), src: src})
	}
	for _, n := range vm.graph.Nodes {
		switch op := n.Op.(type) {
		case graph.ReadOp:
			add(n.In[0], output{into: op.Into})
		case graph.Input:
			if d := vm.graph.Of(n.Src.Deriv()); d != nil && !vm.trained[n] {
				add(d, output{grad: n})
			}
		case graph.Const, graph.Assign:
		default:
			if !vm.isGradient(n) {
				add(n, output{node: n})
			}
		}
	}
}

// isGradient reports whether n is the gradient of an input, which output.grad shows.
func (vm *VM) isGradient(n *graph.Node) bool {
	for _, of := range n.Src.DerivOf() {
		if k := vm.graph.Of(of); k != nil {
			if _, ok := k.Op.(graph.Input); ok {
				return true
			}
		}
	}
	return false
}

// downloads returns what a run has to copy to the host.
func (o *outputs) downloads(read bool) []download {
	if !read {
		return nil
	}
	return o.down
}

// publish shows the values that a run has filled.
func (o *outputs) publish() error {
	for i, out := range o.list {
		switch {
		case out.into != nil:
			*out.into = out.value
		case out.node != nil:
			if out.node.Src.Value() == out.value {
				continue
			}
			if err := G.UnsafeLet(out.node.Src, out.value); err != nil {
				return nodeError(out.node, "%w", err)
			}
		default:
			if _, ok := out.grad.Src.Value().(*tensor.Dense); ok && len(out.grad.Shape) == 0 {
				out.value = o.asDense(i)
			}
			if err := showGradient(out.grad.Src, out.value); err != nil {
				return nodeError(out.grad, "gradient: %w", err)
			}
		}
	}
	return nil
}

// asDense makes a tensor of the scalar i, since Gorgonia wants gradients to be of the kind of their node's value.
func (o *outputs) asDense(i int) G.Value {
	out := &o.list[i]
	if _, ok := out.value.(*tensor.Dense); !ok {
		d := tensor.New(tensor.Of(out.grad.Dtype), tensor.WithShape())
		copy(d.Raw, host.Bytes(out.value))
		out.value, o.down[i].dst = d, d.Raw
	}
	return out.value
}

// showGradient makes n.Grad return v.
func showGradient(n *G.Node, v G.Value) (err error) {
	if g, err := n.Grad(); err == nil && g == v {
		return nil
	}
	if d := n.Deriv(); d.Op() != nil && d.Value() == nil {
		if err := G.UnsafeLet(d, v); err != nil { // for those who look at the gradient's node
			return err
		}
	}
	if n.Value() == nil {
		return nil // it can hold none; its gradient's node does
	}
	defer func() {
		if p := recover(); p != nil { // WithGrad's way to fail
			err = fmt.Errorf("%v", p)
		}
	}()
	G.WithGrad(v)(n)
	return nil
}
