package gpu

// This file compiles solvers.

import (
	"math"
	"slices"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// updates adds the updates that steps begins with, those of one solver and dtype in one launch, and returns how many
// they are.
func (b *builder) updates(u plan.Update, steps []plan.Step) int {
	if !b.solves {
		if b.found > 0 {
			b.stop((*Machine).report) // what is not a number must not get into the weights
		}
		b.solves = true
		b.begin()
		b.writes(liveRef(settingsAt), whole)
		b.launchNamed("tick", blocks(1), liveRef(settingsAt))
	}
	var all []kernels.Parameter
	var done []*plan.Step
	for i := range steps {
		s := &steps[i]
		if op, ok := s.Op.(plan.Update); !ok || op != u || s.Out.Dtype != steps[0].Out.Dtype {
			break
		}
		done = append(done, s)
		if s.Out.N == 0 {
			continue
		}
		p := kernels.Parameter{Weights: uint64(b.mem.At(s.Out)), Gradient: uint64(b.mem.At(s.In[0])), N: uint32(s.Out.N)}
		switch u.Kind.Moments() {
		case 2:
			p.First = uint64(b.mem.At(s.Aux))
			p.Second = p.First + uint64(s.Out.Bytes())
		case 1:
			p.First = uint64(b.mem.At(s.Aux))
		}
		all = append(all, p)
	}
	if len(all) > 0 {
		b.begin(done...)
		for list := range slices.Chunk(all, kernels.MaxParameters) {
			p, n := kernels.NewParameters(list...)
			b.launch(solverKernels[u.Kind], steps[0].Out.Dtype, blocks(int(n)), append([]argument{liveRef(settingsAt)}, words(p)...)...)
		}
	}
	return len(done)
}

var solverKernels = map[graph.SolverKind]string{
	graph.SGD: "sgd", graph.Momentum: "momentum", graph.RMSProp: "rmsprop", graph.Adam: "adam", graph.AdamW: "adam",
}

// settingsOf returns a solver's settings for the kernels, before its step number iter.
func settingsOf(run plan.Run) kernels.Settings {
	h := run.Settings
	s := kernels.Settings{
		Rate: h.LearnRate, L1: h.L1, L2: h.L2, Scale: 1, Clip: h.Clip, Decay: h.WeightDecay, Beta1: h.Beta1, Beta2: h.Beta2, Epsilon: h.Eps,
		Steps: float64(run.Iter - 1),
	}
	if h.Momentum != 0 {
		s.Beta1 = h.Momentum
	}
	if h.Rho != 0 {
		s.Beta2 = h.Rho
	}
	if h.Batch > 1 {
		s.Scale = 1 / h.Batch
	}
	if run.Bugs {
		s.Upstream = 1
	}
	return s
}

// powers sets the powers of s for its steps.
func powers(s *kernels.Settings) {
	s.Power1, s.Power2 = math.Pow(s.Beta1, s.Steps), math.Pow(s.Beta2, s.Steps)
}

// ticked does what the kernel tick does.
func ticked(s *kernels.Settings) {
	s.Steps++
	s.Power1 *= s.Beta1
	s.Power2 *= s.Beta2
}
