package asynccopy

// This file has what is checked of host tensors before they are copied.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pintensor/pin/internal/strided"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// layoutOf returns where the elements of t are, if they can be copied.
func layoutOf(t *tensor.Dense) (strided.Layout, error) {
	if t == nil {
		return strided.Layout{}, errors.New("it is nil")
	}
	if err := checkDtype(t.Dtype()); err != nil {
		return strided.Layout{}, err
	}
	if !t.IsNativelyAccessible() {
		hold, err := pintensor.Acquire(t)
		if err != nil {
			return strided.Layout{}, err // it was released
		}
		hold.Done()
		return strided.Layout{}, fmt.Errorf("its engine %T says that the host can't access its memory", t.Engine())
	}
	if len(t.Mask()) > 0 {
		return strided.Layout{}, errors.New("it has a mask, which a device tensor can't have")
	}
	return strided.Of(t)
}

// match refuses to copy between tensors that differ.
func match(x *Tensor, xName string, t *tensor.Dense, tName string) error {
	switch {
	case x.dtype != t.Dtype():
		return fmt.Errorf("%s is of %v, %s of %v: want the same dtype", xName, x.dtype, tName, t.Dtype())
	case !slices.Equal(x.shape(), t.Shape()):
		return fmt.Errorf("%s has shape %v, %s %v: want the same shape", xName, x.Shape(), tName, t.Shape())
	}
	return nil
}
