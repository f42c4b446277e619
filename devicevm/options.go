package devicevm

// This file has the options of New.

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// Option is a setting of New.
type Option func(*options) error

type options struct {
	values    []*G.Node
	solver    G.Solver
	params    []*G.Node
	weights   *VM
	eval      bool
	bugs      bool
	seed      uint64
	readEvery int
	nan, inf  bool
}

// WithValues keeps the values of more nodes for Node.Value and VM.Value. Without it there are those of inputs, of
// what Read nodes read, of the cost, of nodes that nothing else uses, and the gradients that gorgonia.Grad was
// asked for; everything else exists only while it is needed, or never.
func WithValues(nodes ...*G.Node) Option {
	return func(o *options) error {
		for i, n := range nodes {
			if n == nil {
				return fmt.Errorf("WithValues: node %d is nil", i)
			}
		}
		o.values = append(o.values, nodes...)
		return nil
	}
}

// WithSolver makes each run end with a step of the solver, on the device. It is one of Gorgonia's, made with its
// own options: VanillaSolver, Momentum, RMSPropSolver, AdamSolver or AdamW. params are the nodes that it changes,
// by default all inputs that gorgonia.Grad was asked for the gradient of.
//
// Its options are read in each run, so gorgonia.WithLearnRate(0.1)(solver) between two runs takes effect. Its
// own state is not used: momentum, means and the number of steps are the VM's.
//
// The weights then live on the device: [VM.Sync] and Close bring them back to the nodes' values, and
// Node.Grad is not set ([VM.Grad] gives the gradient). So leave the program's own solver.Step out: it would find
// no gradients, and panic.
func WithSolver(s G.Solver, params ...*G.Node) Option {
	return func(o *options) error {
		if s == nil {
			return fmt.Errorf("WithSolver: the solver is nil")
		}
		for i, n := range params {
			if n == nil {
				return fmt.Errorf("WithSolver: parameter %d is nil", i)
			}
		}
		o.solver, o.params = s, params
		return nil
	}
}

// WithWeightsFrom makes the VM use the weights of another one, on the same device, without copying them: an
// evaluation graph, with a batch size of its own, beside the graph that is trained. A weight is an input of the
// other VM's graph that has a gradient; it is the same in both graphs if its node has the same value (the very same
// tensor), or else the same name. Running statistics of batch normalisations are shared in their order. It is an
// error if the graphs have nothing in common, as with weights of other names, or if one of the weights is left out while
// this graph has an input with a value of its own, of the same dtype and shape: the VM would evaluate random weights.
//
// The other VM may be closed first.
func WithWeightsFrom(vm *VM) Option {
	return func(o *options) error {
		if vm == nil {
			return fmt.Errorf("WithWeightsFrom: the VM is nil")
		}
		o.weights = vm
		return nil
	}
}

// WithEval makes the VM evaluate, not train: dropout drops nothing, and batch normalisation uses its running
// statistics.
func WithEval() Option {
	return func(o *options) error { o.eval = true; return nil }
}

// WithSeed sets the seed of dropout, 0 by default. What is dropped depends on the seed, the number of the run, the
// layer and the place alone.
func WithSeed(seed uint64) Option {
	return func(o *options) error { o.seed = seed; return nil }
}

// WithReadEvery makes only each n-th run, the n-th first, copy values to the host, where Read and Node.Value find
// them. The default is 1. [VM.Value] always gives the latest. On a GPU the runs in between are not waited for.
func WithReadEvery(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return fmt.Errorf("WithReadEvery: n is %d, want at least 1", n)
		}
		o.readEvery = n
		return nil
	}
}

// WithNaNWatch makes a run fail with ErrNaN at the first node whose value has a NaN. Every node is computed by
// itself then, which is slower.
func WithNaNWatch() Option {
	return func(o *options) error { o.nan = true; return nil }
}

// WithInfWatch is WithNaNWatch for infinite values, and ErrInf.
func WithInfWatch() Option {
	return func(o *options) error { o.inf = true; return nil }
}

// WithUpstreamBugs makes the VM as wrong as Gorgonia v0.9.18 where that is wrong, to reproduce results. "Gorgonia's
// mistakes" in the package documentation lists where. Those operations compute themselves then, on the host.
func WithUpstreamBugs() Option {
	return func(o *options) error { o.bugs = true; return nil }
}
