package gpu

// This file compiles the layers of networks.

import (
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

func flag(on bool) argument {
	if on {
		return number(1)
	}
	return number(0)
}

func (b *builder) softmax(s *plan.Step, op graph.Softmax) {
	l := plan.LinesOf(s.Out.Shape, op.Axis)
	each := inOneBlock(l.N)
	b.launch("softmax", s.Out.Dtype, blocks(min((l.Count+each-1)/each, 1<<16)), ref(b.mem.At(s.In[0])), ref(b.mem.At(s.Out)),
		number(l.Count), number(l.N), number(l.Step), number(each), flag(op.Log))
}

func (b *builder) softmaxDiff(s *plan.Step, op graph.SoftmaxDiff) {
	l := plan.LinesOf(s.Out.Shape, op.Axis)
	each := inOneBlock(l.N)
	b.launch("softmax_diff", s.Out.Dtype, blocks(min((l.Count+each-1)/each, 1<<16)), ref(b.mem.At(s.In[1])), ref(b.mem.At(s.In[2])), ref(b.mem.At(s.Out)),
		number(l.Count), number(l.N), number(l.Step), number(each), flag(op.Log))
}

// window is the geometry of a convolution of images of a shape.
func window(w graph.Window, shape []int, outH, outW int) *kernels.Window {
	by := func(n int) kernels.Divisor { return kernels.NewDivisor(uint32(n)) }
	return &kernels.Window{
		Batch: uint32(shape[0]), Channels: by(shape[1]), Height: by(shape[2]), Width: by(shape[3]),
		OutHeight: by(outH), OutWidth: by(outW), KernelHeight: by(w.KernelH), KernelWidth: by(w.KernelW),
		StrideHeight: by(w.StrideH), StrideWidth: by(w.StrideW),
		DilationHeight: uint32(w.DilationH), DilationWidth: uint32(w.DilationW),
		PadHeight: int32(w.PadH), PadWidth: int32(w.PadW),
	}
}

// windows adds a kernel for the elements of s's result, in so many threads, which takes places and a window.
func (b *builder) windows(name string, s *plan.Step, threads int, w *kernels.Window, places ...plan.Value) {
	var args []argument
	for _, v := range places {
		args = append(args, ref(b.mem.At(v)))
	}
	b.launch(name, s.Out.Dtype, each(threads), append(args, words(w)...)...)
}

func (b *builder) im2col(s *plan.Step, w graph.Window) {
	k := window(w, s.In[0].Shape, s.Out.Shape[1], s.Out.Shape[2])
	b.windows("im2col", s, (s.Out.N+3)/4, k, s.In[0], s.Out)
}

func (b *builder) col2im(s *plan.Step, op graph.Col2Im) {
	k := window(op.Window, s.Out.Shape, s.In[0].Shape[1], s.In[0].Shape[2])
	b.windows("col2im", s, s.Out.N, k, s.In[0], s.Out)
}

// pooling is the geometry of a pooling of images of a shape.
func pooling(p graph.Pool, shape []int, outH, outW int) *kernels.Window {
	w := graph.Window{
		KernelH: p.KernelH, KernelW: p.KernelW, PadH: p.North, PadW: p.West,
		StrideH: p.StrideH, StrideW: p.StrideW, DilationH: 1, DilationW: 1,
	}
	return window(w, shape, outH, outW)
}

func (b *builder) maxPool(s *plan.Step, p graph.Pool) {
	k := pooling(p, s.In[0].Shape, s.Out.Shape[2], s.Out.Shape[3])
	b.windows("max_pool", s, s.Out.N, k, s.In[0], s.Out, s.Aux)
}

// maxPoolDiff is the gradient of a pooling, and then what it goes through, nothing for a nil then.
func (b *builder) maxPoolDiff(s *plan.Step, p graph.Pool, shape []int, then *plan.Elementwise) error {
	k := kernels.PoolDiff{Window: *pooling(p, shape, s.In[2].Shape[2], s.In[2].Shape[3])}
	var err error
	if then == nil {
		k.Then, err = kernels.NewExpression(nil, nil, uint64(b.mem.At(s.Out)))
	} else {
		k.Then, err = b.expression(s, then, s.In[3:])
	}
	if err != nil {
		return err
	}
	b.launch("max_pool_diff", s.Out.Dtype, elements(s.Out.N), append([]argument{ref(b.mem.At(s.In[2])), ref(b.mem.At(s.Aux))}, words(&k)...)...)
	return nil
}

// dropout draws the same numbers for a layer and its gradient.
func (b *builder) dropout(s *plan.Step, operand int, p float64) {
	threshold, scale := plan.Keep(p)
	b.launch("dropout", s.Out.Dtype, elements(s.Out.N), ref(b.mem.At(s.In[operand])), ref(b.mem.At(s.Out)), number(s.Out.N),
		number(s.Layer), liveRef(runAt), argument{bits: threshold}, float(s.Out.Dtype, scale))
}

func (b *builder) batchNorm(s *plan.Step, op graph.BatchNorm) {
	batch, channels, space := plan.ChannelsOf(s.Out.Shape)
	b.launch("batch_norm", s.Out.Dtype, blocks(channels),
		ref(b.mem.At(s.In[0])), ref(b.mem.At(s.Out)), ref(b.mem.At(s.Aux)), ref(b.mem.At(s.State)),
		number(batch), number(channels), number(space), flag(s.Eval), float(s.Out.Dtype, op.Momentum), float(s.Out.Dtype, op.Epsilon))
}

func (b *builder) batchNormDiff(s *plan.Step) {
	batch, channels, space := plan.ChannelsOf(s.Out.Shape)
	b.launch("batch_norm_diff", s.Out.Dtype, blocks(channels),
		ref(b.mem.At(s.In[0])), ref(b.mem.At(s.In[1])), ref(b.mem.At(s.Aux)), ref(b.mem.At(s.Out)),
		number(batch), number(channels), number(space), flag(s.Eval))
}
