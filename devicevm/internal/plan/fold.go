package plan

// This file computes what never changes.

import (
	"bytes"
	"fmt"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/host"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// folded is a value that never changes.
type folded struct {
	value   G.Value
	data    []byte
	uniform bool // every element is the same
}

// fold finds out whether n never changes. Gorgonia's own operations compute the value, so it is the same to
// the bit.
func (b *builder) fold(n *graph.Node) error {
	var v G.Value
	switch op := n.Op.(type) {
	case graph.Const:
		v = op.Value
	case graph.Size:
		v = sizeOf(n, op)
	case graph.Binary, graph.Unary, graph.Reshape, graph.Sum, graph.Transpose, graph.Repeat, graph.MatMul, graph.Identity:
		v = b.compute(n)
	}
	if v == nil {
		return nil
	}
	data := make([]byte, n.Size()*int(n.Dtype.Size()))
	if err := host.Copy(data, v, n.Dtype); err != nil {
		if _, ok := n.Op.(graph.Const); ok {
			return fmt.Errorf("%v: %w", n, err)
		}
		return nil // it is computed in every run, then
	}
	b.consts[n] = &folded{value: v, data: data, uniform: uniform(data, int(n.Dtype.Size()))}
	return nil
}

// sizeOf is the value of a graph.Size, or nil if there is none in its dtype.
func sizeOf(n *graph.Node, op graph.Size) G.Value {
	size := 1
	if shape := n.In[0].Shape; len(shape) > 0 {
		if op.Axis < 0 || op.Axis >= len(shape) {
			return nil
		}
		size = shape[op.Axis]
	}
	switch n.Dtype {
	case tensor.Float64:
		return G.NewF64(float64(size))
	case tensor.Float32:
		return G.NewF32(float32(size))
	case tensor.Int:
		return G.NewI(size)
	}
	return nil
}

// compute returns the value of n if all its operands never change, else nil.
func (b *builder) compute(n *graph.Node) (v G.Value) {
	operands := make([]G.Value, 0, len(n.In))
	for _, c := range n.In {
		if _, ok := c.Op.(graph.Size); ok && b.consts[c] == nil {
			_ = b.fold(c) // a repetition's count, which nothing else needs; a size does not fail
		}
		k := b.consts[c]
		if k == nil {
			return nil
		}
		clone, err := G.CloneValue(k.value) // some operations turn their operands over
		if err != nil {
			return nil
		}
		operands = append(operands, clone)
	}
	defer func() {
		if recover() != nil {
			v = nil // it will fail when it runs, where there is somebody to tell
		}
	}()
	v, err := n.Src.Op().Do(operands...)
	if err != nil {
		return nil
	}
	return v
}

// uniform reports whether all elements of the given size are the same.
func uniform(data []byte, size int) bool {
	return len(data) > size && bytes.Equal(data[size:], data[:len(data)-size])
}
