package devicevm

// This file has inputs: where their values come from, and when they are copied to the device.
//
// The value of an input is the later of what VM.Let gave and what gorgonia.Let, or gorgonia.WithValue, bound to the
// node. Let's is copied when Let is called. What is bound to the node is copied in each run, since nothing tells
// whether its owner has written to it meanwhile: a loader to its batch, a solver of Gorgonia's to its weights.
// Weights that this package's solver changes are the exception. They are copied once, and again only if another
// value is bound.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/host"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// slot is an input, of one VM or of several that share a weight.
type slot struct {
	node *graph.Node
	refs int // VMs

	own     *asynccopy.Tensor // ours; nil until there is something to copy
	spare   *asynccopy.Tensor // the next own; nil until Let has copied twice
	given   *asynccopy.Tensor // the caller's, or of feed, in place of own
	feed    feed              // on machines that run beside the host
	let     bool              // own or given is what VM.Let gave
	bound   G.Value           // to the node, when let or loaded was set
	trained bool              // a solver of ours changes it
	loaded  bool              // trained, and own has it
}

// prepare returns the tensor that has the value in the vm's next run, and adds what must be copied to up.
func (s *slot) prepare(vm *VM, up []upload) (*asynccopy.Tensor, []upload, error) {
	stream := vm.session.stream
	v := s.node.Src.Value()
	if s.let && v == s.bound || s.loaded && v == s.bound {
		if s.given != nil {
			return s.given, up, s.use(stream)
		}
		return s.own, up, nil
	}
	if v == nil {
		return nil, up, nodeError(s.node, "it has %w: use Let", ErrNoValue)
	}
	if err := s.check(v); err != nil {
		return nil, up, err
	}
	if t, ok := v.(*asynccopy.Tensor); ok {
		if err := s.lend(t, v, stream); err != nil {
			return nil, up, err
		}
		return t, up, s.use(stream)
	}
	s.let, s.loaded = false, false
	if s.feeds(vm) {
		if err := s.put(vm, v); err != nil {
			return nil, up, err
		}
		return s.given, up, s.use(stream)
	}
	if err := s.reserve(stream); err != nil {
		return nil, up, err
	}
	s.given = nil
	return s.own, append(up, upload{dst: s.own, value: v}), nil
}

// feeds reports whether host values go through feed: not those that a solver of ours changes where they are, or that
// another VM may be using.
func (s *slot) feeds(vm *VM) bool { return vm.machine.beside() && !s.trained && s.refs == 1 }

// put sends a host value on its way.
func (s *slot) put(vm *VM, v G.Value) error {
	copies, err := vm.session.copying()
	if err != nil {
		return nodeError(s.node, "%w", err)
	}
	t, err := s.feed.put(s.node, v, copies)
	if err != nil {
		return nodeError(s.node, "%w", err)
	}
	s.given = t
	return nil
}

// lend makes a tensor of the caller's the value, in place of what is bound to the node now.
func (s *slot) lend(t *asynccopy.Tensor, bound G.Value, stream *asynccopy.Stream) error {
	switch {
	case s.trained:
		return nodeError(s.node, "the solver trains it, so its value must be the host's, not an *asynccopy.Tensor: %w", ErrUnsupported)
	case t.Device() != stream.Device():
		return nodeError(s.node, "the value is on %v, the VM on %v: want one Device, of one call of asynccopy.Open", t.Device(), stream.Device())
	case t.DevicePtr() == 0 && t.MemSize() > 0:
		return nodeError(s.node, "the value was %w", asynccopy.ErrReleased)
	}
	s.let, s.given, s.bound = true, t, bound
	return nil
}

// use says to a tensor of the caller's that a run begins to use it.
func (s *slot) use(stream *asynccopy.Stream) error {
	if err := s.given.Use(stream); err != nil {
		return nodeError(s.node, "%w", err)
	}
	return nil
}

// uploaded notes that a run has copied the node's value.
func (s *slot) uploaded() {
	if s.trained && !s.let && !s.loaded {
		s.loaded, s.bound = true, s.node.Src.Value()
	}
}

// copyBound copies the value that is bound to the node.
func (s *slot) copyBound(dst []byte) error {
	v := s.node.Src.Value()
	if err := s.check(v); err != nil {
		return err
	}
	if err := host.Copy(dst, v, s.node.Dtype); err != nil {
		return nodeError(s.node, "%w", err)
	}
	return nil
}

// reserve gets the slot memory of its own.
func (s *slot) reserve(stream *asynccopy.Stream) error {
	if s.own != nil {
		return nil
	}
	t, err := stream.Empty(s.node.Dtype, s.node.Shape...)
	if err != nil {
		return nodeError(s.node, "%w", err)
	}
	s.own = t
	return nil
}

// target returns the tensor that Let copies into. It is not own, which so keeps its value if the copy fails, and also if
// it then happens all the same, as it may when it was the waiting that failed. Where graphs were captured with the
// address it is own.
func (s *slot) target(vm *VM) (*asynccopy.Tensor, error) {
	stream := vm.session.stream
	if vm.machine.beside() {
		err := s.reserve(stream)
		return s.own, err
	}
	if s.spare == nil {
		t, err := stream.Empty(s.node.Dtype, s.node.Shape...)
		if err != nil {
			return nil, nodeError(s.node, "%w", err)
		}
		s.spare = t
	}
	return s.spare, nil
}

// check refuses a value that does not fit the node.
func (s *slot) check(v G.Value) error {
	n := s.node
	if v.Dtype() != n.Dtype {
		return nodeError(n, "a value of %v: %w", v.Dtype(), ErrMismatch)
	}
	shape := v.Shape()
	if !slices.Equal(shape, n.Shape) { // tensor's own Eq takes (3, 1) for (3)
		return nodeError(n, "a value of shape %v: %w", shape, ErrMismatch)
	}
	switch v := v.(type) {
	case *tensor.Dense:
		if !v.IsNativelyAccessible() { // its memory may be another tensor's by now
			return nodeError(n, "%w: the tensor was released, or its memory is not in the host's reach", ErrNoValue)
		}
		if len(v.Mask()) > 0 {
			return nodeError(n, "a value with a mask: %w", ErrUnsupported)
		}
	case G.Scalar, *asynccopy.Tensor:
	default:
		return nodeError(n, "a value of type %T, want *tensor.Dense, *asynccopy.Tensor or a scalar of gorgonia: %w", v, ErrUnsupported)
	}
	return nil
}

// release ends one VM's use.
func (s *slot) release() error {
	s.refs--
	if s.refs > 0 {
		return nil
	}
	err := s.feed.release()
	for _, t := range []*asynccopy.Tensor{s.own, s.spare} {
		if t != nil {
			err = errors.Join(err, t.Release())
		}
	}
	s.own, s.spare = nil, nil
	if err != nil {
		return fmt.Errorf("%v: %w", s.node, err)
	}
	return nil
}
