package devicevm

// This file brings what was trained back to the host.

import (
	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/strided"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func (vm *VM) sync() error {
	var down []download
	for i, s := range vm.slots {
		if !s.trained || s.own == nil || vm.prog.Where[vm.prog.Inputs[i]].N == 0 {
			continue
		}
		v, err := s.hostValue()
		if err != nil {
			return err
		}
		down = append(down, download{dst: host.Bytes(v), src: vm.prog.Where[vm.prog.Inputs[i]]})
	}
	if !vm.opts.eval && !vm.opts.bugs && vm.count > 0 {
		down = append(down, vm.statistics()...)
	}
	if len(down) == 0 {
		return nil
	}
	return vm.fetch(down)
}

// hostValue returns the tensor that a trained weight goes to: the node's own. Where that can't take it, since its
// elements are not in order, the node gets another.
func (s *slot) hostValue() (G.Value, error) {
	v := s.node.Src.Value()
	if d, ok := v.(*tensor.Dense); ok {
		if layout, err := strided.Of(d); err == nil && layout.Contiguous() && layout.Size() == s.bytes() && len(d.Raw) == s.bytes() {
			return v, nil
		}
	}
	if _, ok := v.(G.Scalar); ok {
		return v, nil
	}
	v = host.New(s.node.Dtype, s.node.Shape)
	if err := G.Let(s.node.Src, v); err != nil {
		return nil, nodeError(s.node, "%w", err)
	}
	s.bound = v
	return v, nil
}

func (s *slot) bytes() int { return s.node.Size() * int(s.node.Dtype.Size()) }

// statistics returns the downloads of running statistics into their layers.
func (vm *VM) statistics() []download {
	var down []download
	for i, s := range vm.states {
		if s.info.Norm == nil {
			continue
		}
		mean, variance := s.info.Norm.Op.Stats()
		n := int(s.info.Bytes) / int(s.info.Dtype.Size())
		all := plan.Value{Space: plan.State, Index: i, Dtype: s.info.Dtype, N: n}
		first, second := all, all
		first.N, second.N = n/2, n/2
		second.Off = s.info.Bytes / 2
		down = append(down, download{dst: host.Bytes(mean.(G.Value)), src: first}, download{dst: host.Bytes(variance.(G.Value)), src: second})
	}
	return down
}
