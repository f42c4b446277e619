// Package cpu runs programs on the host's cores.
//
// Matrix products are by kernels in assembly where the processor has AVX2 and FMA, unless gorgonia.Use has set a BLAS;
// then, and elsewhere, by that. Everything else is plain Go. Work is divided among cores only where each has much of
// it, and never so that the division changes the result: two runs give the same bits on any number of cores.
//
// # Ownership
//
// A [Memory] is the caller's, who may point it to other memory between two runs.
//
// # Concurrency
//
// A [Runner] is for one goroutine at a time, and uses others for a run only.
//
// # Errors
//
// An error, or panic, of a step is a [plan.StepError] that names its node.
//
// # Platforms
//
// All that Go runs on; the kernels are for amd64.
package cpu

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"gorgonia.org/tensor"
)

// Memory is where the values of a program lie. It may change from run to run.
type Memory struct {
	Arena                  []byte
	Inputs, Consts, States [][]byte
}

// Runner runs one program.
type Runner struct {
	prog  *plan.Program
	mem   *Memory
	run   plan.Run
	steps []func() error
}

// Compile prepares a program. Nothing is allocated when it runs, but by operations that compute themselves.
func Compile(p *plan.Program, mem *Memory) (*Runner, error) {
	r := &Runner{prog: p, mem: mem}
	for i := range p.Steps {
		s := &p.Steps[i]
		f, err := r.compile(s)
		if err != nil {
			return nil, &plan.StepError{Node: s.Node, Err: err}
		}
		r.steps = append(r.steps, f)
	}
	return r, nil
}

// Run runs the program once. A step that fails ends it.
func (r *Runner) Run(run plan.Run) (err error) {
	r.run = run
	var at int
	defer func() {
		if p := recover(); p != nil {
			err = &plan.StepError{Node: r.prog.Steps[at].Node, Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	for i, f := range r.steps {
		at = i
		s := &r.prog.Steps[i]
		if err := f(); err != nil {
			return &plan.StepError{Node: s.Node, Err: err}
		}
		if run.NaN || run.Inf {
			if err := r.inspect(s.Out); err != nil {
				return &plan.StepError{Node: s.Node, Err: err}
			}
		}
	}
	return nil
}

// inspect looks for what Run says to look for.
func (r *Runner) inspect(v plan.Value) error {
	switch v.Dtype {
	case tensor.Float32:
		return inspect(r.run, values[float32](r.mem, v))
	case tensor.Float64:
		return inspect(r.run, values[float64](r.mem, v))
	}
	return nil
}

func inspect[T float](run plan.Run, v []T) error {
	for i, x := range v {
		switch {
		case run.NaN && x != x:
			return fmt.Errorf("%w at element %d of %d", plan.ErrNaN, i, len(v))
		case run.Inf && math.IsInf(float64(x), 0):
			return fmt.Errorf("%w at element %d of %d", plan.ErrInf, i, len(v))
		}
	}
	return nil
}

// compile returns what a step does.
func (r *Runner) compile(s *plan.Step) (func() error, error) {
	if op, ok := s.Op.(plan.Host); ok {
		return r.host(s, op.Op)
	}
	var f func()
	switch s.Out.Dtype {
	case tensor.Float32:
		f = compileFloat[float32](r, s)
	case tensor.Float64:
		f = compileFloat[float64](r, s)
	}
	if f == nil {
		return nil, fmt.Errorf("%T in %v is not supported", s.Op, s.Out.Dtype)
	}
	return func() error { f(); return nil }, nil
}

func compileFloat[T float](r *Runner, s *plan.Step) func() {
	switch op := s.Op.(type) {
	case *plan.Elementwise:
		return elementwise[T](r, s, op)
	case graph.MatMul:
		return matMul[T](r, s, op, s.Out.Shape)
	case plan.ImageMatMul:
		return imageMatMul[T](r, s, op)
	case plan.Product:
		return matMulThen[T](r, s, op)
	case plan.Followed:
		first := op.First(s)
		return followed[T](r, s, compileFloat[T](r, &first), op.Operands, op.Then)
	case graph.MatVec:
		return matVec[T](r, s, op)
	case graph.Dot:
		return dot[T](r, s)
	case graph.Outer:
		return outer[T](r, s)
	case graph.Sum:
		return reduce[T](r, s, op.Along, false)
	case graph.Max:
		return reduce[T](r, s, op.Along, true)
	case graph.Repeat:
		return repeat[T](r, s, op)
	case graph.Transpose:
		return transpose[T](r, s, op)
	case graph.Slice, graph.SliceIncr:
		return slice[T](r, s)
	case graph.Concat:
		return concat[T](r, s, op)
	case graph.Softmax:
		return softmax[T](r, s, op)
	case graph.SoftmaxDiff:
		return softmaxDiff[T](r, s, op)
	case graph.Im2Col:
		return im2col[T](r, s, op.Window)
	case graph.Col2Im:
		return col2im[T](r, s, op)
	case graph.MaxPool:
		return maxPool[T](r, s, op.Pool)
	case graph.MaxPoolDiff:
		return maxPoolDiff[T](r, s)
	case graph.Dropout:
		return dropout[T](r, s, 0, op.P)
	case graph.DropoutDiff:
		return dropout[T](r, s, 2, op.P)
	case graph.BatchNorm:
		return batchNorm[T](r, s, op)
	case graph.BatchNormDiff:
		return batchNormDiff[T](r, s)
	case plan.Update:
		return update[T](r, s, op)
	case graph.Reshape, graph.Identity:
		return func() { copy(values[T](r.mem, s.Out), values[T](r.mem, s.In[0])) }
	}
	return nil
}

type float interface{ float32 | float64 }

// Bytes returns the memory of v.
func (m *Memory) Bytes(v plan.Value) []byte {
	var b []byte
	switch v.Space {
	case plan.Arena:
		b = m.Arena
	case plan.Input:
		b = m.Inputs[v.Index]
	case plan.Const:
		b = m.Consts[v.Index]
	case plan.State:
		b = m.States[v.Index]
	}
	return b[v.Off:][:v.Bytes()]
}

// values returns the elements of v.
func values[T any](m *Memory, v plan.Value) []T {
	b := m.Bytes(v)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), v.N)
}

// parallel calls f with ranges that make up [0, n), of at least grain each. Which they are must not matter.
func parallel(n, grain int, f func(lo, hi int)) {
	parts := min(runtime.GOMAXPROCS(0), n/max(grain, 1))
	if parts < 2 {
		if n > 0 {
			f(0, n)
		}
		return
	}
	var wg sync.WaitGroup
	for p := 1; p < parts; p++ {
		wg.Go(func() { f(p*n/parts, (p+1)*n/parts) })
	}
	f(0, n/parts)
	wg.Wait()
}

// grain is how many simple operations on elements make another core worth while: some 20 µs of them.
const grain = 1 << 15
