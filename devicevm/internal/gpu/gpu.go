// Package gpu runs programs on a CUDA device: as launches of the kernels of package kernels, and of cuBLAS where
// there is one, captured into graphs.
//
// A [Machine] loads kernels when the first code needs them, once. Compile turns a program, whose values lie at given
// addresses, into [Code]: a list of issues to a stream, and a table on the device of what kernels write beside values
// (counters of products, what a watch finds). The first run of Code captures what it issues; later ones launch the graph,
// in which work waits for what it uses, and runs beside the rest. Operations that only the host can compute cut a program
// into several graphs.
//
// # Products
//
// Matrix products are by our own kernels where those were measured to be quicker than cuBLAS, and by cuBLAS, if it is
// there, elsewhere. Small products are launches more than work: ours are one, which divides k among blocks where there
// are few, adds up, and computes what follows element by element, such as a bias and a rectifier.
//
// Convolutions lay patches out as columns, as Gorgonia's graphs say, and multiply those. A direct convolution would have
// to find each element's place as often as it multiplies it by channels; laying out costs two passes over memory that a
// GPU's cache has room for. But nothing is transposed: see plan.ImageMatMul.
//
// # Elements
//
// A launch costs a small tensor more than its elements do, so what plan has joined is one: an expression, up to some
// instructions over up to some operands, with several results. Kernels interpret it; the code is uniform over the grid, and
// one kernel serves every graph. It is a parameter by value, so that the operands are read at once: through tables in
// memory each would be three reads in turn. Products and gradients of poolings evaluate one on what they have computed.
// The softmax of up to 32 classes, its gradient and all between are an expression with a warp for each row; other steps on
// small tensors, as the loss's sum and mean, are a sequence, which one block computes.
//
// Each interpreted instruction is elsewhere in the code, which is not in a processor's caches yet when a kernel begins: one of
// eleven instructions took 6.5 µs on an H200 (ncu, gpu__time_duration), where a kernel that reads and writes takes 2.5. So
// biases, rectifiers, masks and softmax are one instruction each, or not interpreted at all.
//
// # Determinism
//
// No kernel adds atomically, and how sums are divided depends on shapes alone: two runs give the same bits, on
// devices of one kind.
//
// # Ownership
//
// A Machine owns the kernels, and the memory that they and cuBLAS work in, until Close; [Code] owns its graphs and table until
// [Machine.Free]. The stream and the memory of values are the caller's, and outlive both.
//
// # Concurrency
//
// Calls on a Machine and its Code come one at a time.
//
// # Errors
//
// What can't be compiled, or fails on the host, is a [plan.StepError] that names the node. Others are the driver's.
//
// # Platforms
//
// Devices that load PTX: CUDA's of compute capability 7.0 and newer. On devices that load none Open returns
// driver.ErrNotSupported, on CUDA's older ones the driver's own error.
package gpu

// This file compiles a program, step by step.

import (
	"fmt"
	"slices"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// Memory is where the values of a program lie on the device.
type Memory struct {
	Arena                  driver.DevicePtr
	Inputs, Consts, States []driver.DevicePtr
}

// Equal reports whether all values lie at the same addresses.
func (m *Memory) Equal(o Memory) bool {
	return m.Arena == o.Arena && slices.Equal(m.Inputs, o.Inputs) && slices.Equal(m.Consts, o.Consts) && slices.Equal(m.States, o.States)
}

// Clone returns a copy that shares nothing with m.
func (m *Memory) Clone() Memory {
	return Memory{m.Arena, slices.Clone(m.Inputs), slices.Clone(m.Consts), slices.Clone(m.States)}
}

// At returns the address of v.
func (m *Memory) At(v plan.Value) driver.DevicePtr {
	var base driver.DevicePtr
	switch v.Space {
	case plan.Arena:
		base = m.Arena
	case plan.Input:
		base = m.Inputs[v.Index]
	case plan.Const:
		base = m.Consts[v.Index]
	case plan.State:
		base = m.States[v.Index]
	}
	return base + driver.DevicePtr(v.Off)
}

// issue issues some work of code to a stream. It may be called many times.
type issue func(m *Machine, c *Code, s driver.Stream) error

// segment is what is issued in one go: all before an operation of the host's, or a look at what was found.
type segment struct {
	work  []work
	graph driver.Graph // of it, when it was captured
	after func(m *Machine, c *Code) error
}

// Places in a machine's memory for what differs from run to run.
const (
	runAt      = 0  // kernels.Run
	settingsAt = 64 // kernels.Settings
	liveBytes  = 256
)

// Code is a program as a device runs it.
type Code struct {
	prog     *plan.Program
	names    map[string]driver.Function // kernels that it launches
	mem      Memory
	segments []segment
	table    []byte
	found    int   // places for what a watch finds, 4 bytes each, at the table's start
	scratch  int64 // bytes

	solves bool // it has a solver's step
	unsure bool // a run failed: products may have left counters in the table, which are to be 0

	// On the device: the table, and the machine's memory for kernels to work in.
	tableTensor          *asynccopy.Tensor
	tableMem, scratchMem driver.DevicePtr
}

// Launches returns how many pieces of work a run is.
func (c *Code) Launches() int {
	n := 0
	for _, s := range c.segments {
		n += len(s.work)
	}
	return n
}

// builder makes Code.
type builder struct {
	*Code
	blas  bool
	watch [2]bool // for NaN, for Inf
	step  *plan.Step

	// What the step's work uses, and the piece of it that was added last.
	access       access
	previous     int
	dependencies dependencies // in the segment
	base, used   int64        // of scratch memory: the step's begins at base
	products     int          // of cuBLAS
}

// compile makes code of a program whose values lie in mem. With blas products are cuBLAS's.
func compile(p *plan.Program, mem Memory, blas bool, nan, inf bool) (*Code, error) {
	b := &builder{Code: &Code{prog: p, mem: mem, segments: make([]segment, 1)}, blas: blas, watch: [2]bool{nan, inf}}
	if nan || inf {
		b.found = 2 * len(p.Steps)
	}
	b.table = make([]byte, 16+4*b.found) // never empty
	b.names = map[string]driver.Function{}
	if b.found > 0 {
		b.begin()
		b.writes(tableRef(0), int64(4*b.found))
		b.clear(tableRef(0), 0xFF, int64(4*b.found))
	}
	for i := 0; i < len(p.Steps); i++ {
		b.step = &p.Steps[i]
		if u, ok := b.step.Op.(plan.Update); ok {
			n := b.updates(u, p.Steps[i:])
			for range n {
				b.look(i)
				i++
			}
			i--
			continue
		}
		if n := b.together(i); n > 0 {
			i += n - 1
			continue
		}
		b.begin(b.step)
		if err := b.compile(b.step); err != nil {
			return nil, &plan.StepError{Node: b.step.Node, Err: err}
		}
		b.look(i)
	}
	if p.Layers > 0 {
		b.begin()
		b.writes(liveRef(runAt), whole)
		b.launchNamed("count", blocks(1), liveRef(runAt))
	}
	if b.found > 0 {
		b.stop((*Machine).report)
	}
	return b.Code, nil
}

// compile adds the issues of a step.
func (b *builder) compile(s *plan.Step) error {
	if op, ok := s.Op.(plan.Host); ok {
		b.host(s, op)
		return nil
	}
	if s.Out.Dtype != tensor.Float32 && s.Out.Dtype != tensor.Float64 {
		return fmt.Errorf("%T in %v is not supported", s.Op, s.Out.Dtype)
	}
	for _, v := range append(s.In[:len(s.In):len(s.In)], s.Out) {
		if v.N > kernels.MaxElements { // kernels have indices of 32 bits
			return fmt.Errorf("a tensor has %d elements: want at most %d", v.N, kernels.MaxElements)
		}
	}
	if s.Out.N == 0 {
		return nil
	}
	switch op := s.Op.(type) {
	case *plan.Elementwise:
		return b.elementwise(s, op)
	case graph.MatMul:
		return b.product(matMul(s.In[0], op, s.Out.Shape), s, nil)
	case plan.ImageMatMul:
		return b.product(imageMatMul(op), s, nil)
	case plan.Product:
		if op.Images.Images > 0 {
			return b.product(imageMatMul(op.Images), s, op.Then)
		}
		return b.product(matMul(s.In[0], op.MatMul, op.Shape), s, op.Then)
	case graph.MatVec:
		return b.product(matVec(s.In[0], op), s, nil)
	case graph.Dot:
		return b.product(contiguous(false, false, 1, 1, s.In[0].N, 1), s, nil)
	case graph.Outer:
		return b.product(contiguous(false, false, s.In[0].N, s.In[1].N, 1, 1), s, nil)
	case graph.Sum:
		b.reduce(s, op.Along, "sum")
	case graph.Max:
		b.reduce(s, op.Along, "max")
	case graph.Repeat:
		return b.repeat(s, op)
	case graph.Transpose:
		return b.transpose(s, op)
	case graph.Slice:
		return b.slice(s, op)
	case graph.SliceIncr:
		return b.sliceIncr(s, op)
	case graph.Concat:
		return b.concat(s, op)
	case graph.Softmax:
		b.softmax(s, op)
	case graph.SoftmaxDiff:
		b.softmaxDiff(s, op)
	case graph.Im2Col:
		b.im2col(s, op.Window)
	case graph.Col2Im:
		b.col2im(s, op)
	case graph.MaxPool:
		b.maxPool(s, op.Pool)
	case graph.MaxPoolDiff:
		return b.maxPoolDiff(s, op.Pool, s.Out.Shape, nil)
	case plan.Followed:
		return b.maxPoolDiff(s, op.Op.(graph.MaxPoolDiff).Pool, op.Shape, op.Then)
	case graph.Dropout:
		b.dropout(s, 0, op.P)
	case graph.DropoutDiff:
		b.dropout(s, 2, op.P)
	case graph.BatchNorm:
		b.batchNorm(s, op)
	case graph.BatchNormDiff:
		b.batchNormDiff(s)
	case graph.Reshape, graph.Identity:
		b.copy(s.Out, s.In[0])
	default:
		return fmt.Errorf("%T is not supported", s.Op)
	}
	return nil
}

// look adds a search for NaN and infinities in a step's result.
func (b *builder) look(i int) {
	v := b.prog.Steps[i].Out
	if v.N == 0 || v.Dtype != tensor.Float32 && v.Dtype != tensor.Float64 {
		return
	}
	for kind, on := range b.watch {
		if on {
			b.begin()
			b.reads(ref(b.mem.At(v)), v.Bytes())
			b.writes(tableRef(4*(2*i+kind)), 4)
			b.launch("not_finite", v.Dtype, elements(v.N), ref(b.mem.At(v)), number(v.N), tableRef(4*(2*i+kind)), number(1-kind), number(kind))
		}
	}
}

// stop begins a new segment, after what after does.
func (b *builder) stop(after func(m *Machine, c *Code) error) {
	b.segments[len(b.segments)-1].after = after
	b.segments = append(b.segments, segment{})
	b.dependencies, b.previous = dependencies{}, -1
}
