//go:build !cuda

package asynccopy_test

// This file tests a Tensor with Gorgonia, whose own code for the tag cuda needs a cuDNN that current machines don't
// have.

import (
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/internal/soft"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

var _ gorgonia.Value = (*asynccopy.Tensor)(nil)

func TestTensorIsAValueOfGorgonia(t *testing.T) {
	r := newRig(t, soft.New(soft.Config{Host: locking{}}))
	x := must(r.stream().Empty(tensor.Float32, 2, 3))(r)
	g := gorgonia.NewGraph()
	n := gorgonia.NewMatrix(g, tensor.Float32, gorgonia.WithShape(2, 3))
	r.ok(gorgonia.Let(n, x))
	if n.Value() != gorgonia.Value(x) {
		t.Error("the node does not hold the Tensor")
	}
	r.ok(x.Release())
}
