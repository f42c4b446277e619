package plan

// This file makes one sum of sums of sums: the gradient of what was broadcast along several axes, as a convolution's
// bias is, is a sum along each of them.

import "github.com/pintensor/pin/devicevm/internal/graph"

// total is a sum along axes of a node that is not the sum's child.
type total struct {
	of    *graph.Node
	along []int
}

// addUp returns what n adds up, all sums in between left out, if n is a sum of a sum that nothing else needs.
func (b *builder) addUp(n *graph.Node) (total, bool) {
	op, ok := n.Op.(graph.Sum)
	if !ok || b.NoFuse || !b.native(n) {
		return total{}, false
	}
	t, joined := total{n.In[0], op.Along}, false
	for {
		c := b.source(t.of)
		inner, ok := c.Op.(graph.Sum)
		if !ok || b.consts[c] != nil || b.kept[c] || b.uses[c] != 1 || !b.native(c) {
			return t, joined
		}
		along, ok := sumOfSum(c.In[0].Shape, inner.Along, t.of.Shape, t.along)
		if !ok {
			return t, joined
		}
		t, joined = total{c.In[0], along}, true
	}
}

// sumOfSum returns the axes of a shape along which it is summed by a sum along some of them, and then, of the result with
// another shape, along others. All axes are meant by none. Axes of length 1 don't matter.
func sumOfSum(shape, along, then, others []int) ([]int, bool) {
	sums := func(axes []int, i int) bool {
		for _, a := range axes {
			if a == i {
				return true
			}
		}
		return len(axes) == 0
	}
	var all []int
	k := 0 // the axis of then
	for i, d := range shape {
		if sums(along, i) {
			all = append(all, i)
			continue
		}
		if d == 1 {
			continue
		}
		for k < len(then) && then[k] == 1 {
			k++
		}
		if k == len(then) || then[k] != d {
			return nil, false
		}
		if sums(others, k) {
			all = append(all, i)
		}
		k++
	}
	for ; k < len(then); k++ {
		if then[k] != 1 {
			return nil, false
		}
	}
	return all, len(all) > 0
}
