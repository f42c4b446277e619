package devicevm

// This file takes host values to a device that runs beside the host, so that neither waits for the other: a value is
// copied into one of two pinned blocks, and from there, by a stream of its own, into one of two tensors, while the step
// before still computes with the other. Who gives a third value before the first was taken from its block waits for that.

import (
	"context"
	"errors"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/pintensor"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// feed is the way of one input's values.
type feed struct {
	host   [2]*tensor.Dense
	device [2]*asynccopy.Tensor
	copied [2]*asynccopy.Event // out of host
	next   int
}

// put issues a copy of a value of node n, and returns where it will be. The value may be changed when put returns.
func (f *feed) put(n *graph.Node, v G.Value, copies *asynccopy.Stream) (*asynccopy.Tensor, error) {
	k := f.next
	if err := f.reserve(k, n, copies); err != nil {
		return nil, err
	}
	if e := f.copied[k]; e != nil {
		if err := e.Wait(context.Background()); err != nil {
			return nil, err
		}
	}
	if err := host.Copy(f.host[k].Raw, v, n.Dtype); err != nil {
		return nil, err
	}
	if err := copies.ToDeviceInto(f.device[k], f.host[k], true); err != nil {
		return nil, err
	}
	f.copied[k] = f.device[k].Ready()
	f.next = 1 - k
	return f.device[k], nil
}

// reserve gets memory for the k-th values.
func (f *feed) reserve(k int, n *graph.Node, copies *asynccopy.Stream) error {
	var err error
	if f.device[k] == nil {
		if f.device[k], err = copies.Empty(n.Dtype, n.Shape...); err != nil {
			return err
		}
	}
	if f.host[k] == nil {
		f.host[k], err = pintensor.Default().New(n.Dtype, n.Shape...)
	}
	return err
}

// release gives the memory back. Copies that are under way keep theirs until they are done.
func (f *feed) release() error {
	var errs []error
	for k := range f.host {
		if f.host[k] != nil {
			errs = append(errs, pintensor.Default().Release(f.host[k]))
		}
		if f.device[k] != nil {
			errs = append(errs, f.device[k].Release())
		}
	}
	*f = feed{}
	return errors.Join(errs...)
}
