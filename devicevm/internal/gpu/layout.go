package gpu

// This file compiles operations that move elements: transposing, slicing, joining.

import (
	"fmt"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
)

// view is a view of memory with a shape and steps.
func view(shape, steps []int) (*kernels.View, error) {
	var lengths, strides []int
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if k := len(lengths) - 1; k >= 0 && strides[k] == steps[i]*n {
			lengths[k] *= n
			strides[k] = steps[i]
			continue
		}
		lengths, strides = append(lengths, n), append(strides, steps[i])
	}
	if len(lengths) > kernels.MaxAxes {
		return nil, fmt.Errorf("a tensor of shape %v has more than %d axes", shape, kernels.MaxAxes)
	}
	v := new(kernels.View)
	for i, n := range lengths {
		v.Add(uint32(n), uint32(strides[i]))
	}
	return v, nil
}

// each is a grid with a thread for each of n elements, as far as a device has room.
func each(n int) driver.Dim3 {
	const most = 132 * 8 * 4
	return blocks(min((n+kernels.Threads-1)/kernels.Threads, most))
}

// gather adds out[i] = in[view(i)], from the element start on.
func (b *builder) gather(out, in plan.Value, start int, v *kernels.View) {
	b.launch("gather", out.Dtype, each(out.N), append([]argument{ref(b.element(in, start)), ref(b.mem.At(out)), number(out.N)}, words(v)...)...)
}

// scatter adds out[view(i)] = in[i] for n elements, to the element start on.
func (b *builder) scatter(out plan.Value, start int, v *kernels.View, in argument, n int) {
	b.launch("scatter", out.Dtype, each(n), append([]argument{in, ref(b.element(out, start)), number(n)}, words(v)...)...)
}

// element is the address of one element.
func (b *builder) element(v plan.Value, i int) driver.DevicePtr {
	return b.mem.At(v) + driver.DevicePtr(i*int(v.Dtype.Size()))
}

func (b *builder) transpose(s *plan.Step, op graph.Transpose) error {
	in := plan.Strides(s.In[0].Shape)
	steps := make([]int, len(op.Pattern))
	for i, p := range op.Pattern {
		steps[i] = in[p]
	}
	v, err := view(s.Out.Shape, steps)
	if err != nil {
		return err
	}
	b.gather(s.Out, s.In[0], 0, v)
	return nil
}

// part is a range of an axis: the shape and the steps of its elements in the whole, and where they start.
func part(shape []int, along, start, end, step int) (size, steps []int, first int) {
	size, steps = append([]int(nil), shape...), plan.Strides(shape)
	start, size[along] = plan.RangeOf(shape[along], start, end, step)
	first = start * steps[along]
	steps[along] *= step
	return size, steps, first
}

func (b *builder) slice(s *plan.Step, op graph.Slice) error {
	size, steps, first := part(s.In[0].Shape, op.Along, op.Start, op.End, op.Step)
	v, err := view(size, steps)
	if err != nil {
		return err
	}
	b.gather(s.Out, s.In[0], first, v)
	return nil
}

func (b *builder) sliceIncr(s *plan.Step, op graph.SliceIncr) error {
	size, steps, first := part(s.Out.Shape, op.Along, op.Start, op.End, op.Step)
	v, err := view(size, steps)
	if err != nil {
		return err
	}
	b.clear(ref(b.mem.At(s.Out)), 0, s.Out.Bytes())
	n := 1
	for _, d := range size {
		n *= d
	}
	if n == 0 {
		return nil
	}
	from := ref(b.mem.At(s.In[1]))
	if s.In[1].N == 1 && n > 1 { // one number for all of the slice
		zero := new(kernels.View)
		zero.Add(uint32(n), 0)
		to, _ := b.reserve(0, int64(n)*int64(s.Out.Dtype.Size()))
		b.launch("gather", s.Out.Dtype, each(n), append([]argument{from, to, number(n)}, words(zero)...)...)
		from = to
	}
	b.scatter(s.Out, first, v, from, n)
	return nil
}

func (b *builder) concat(s *plan.Step, op graph.Concat) error {
	whole := plan.Strides(s.Out.Shape)
	at := 0
	for _, in := range s.In {
		if in.N == 0 {
			continue
		}
		v, err := view(in.Shape, whole)
		if err != nil {
			return err
		}
		b.scatter(s.Out, at, v, ref(b.mem.At(in)), in.N)
		at += in.Shape[op.Axis] * whole[op.Axis]
	}
	return nil
}
