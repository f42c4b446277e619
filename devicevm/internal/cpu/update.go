package cpu

// This file has the solvers' updates of weights. The gradient is left as it is.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// update prepares the gradient as Gorgonia's solvers do, in their order: regularisation, batch size, clipping.
func update[T float](r *Runner, s *plan.Step, op plan.Update) func() {
	return func() {
		run := &r.run
		w, g := values[T](r.mem, s.Out), values[T](r.mem, s.In[0])
		moments := values[T](r.mem, s.Aux)
		u := &updater[T]{set: run.Settings, iter: run.Iter, bugs: run.Bugs, w: w, g: g}
		switch op.Kind.Moments() {
		case 1:
			u.m = moments
		case 2:
			u.m, u.v = moments[:len(w)], moments[len(w):]
		}
		parallel(len(w), grain/8, func(lo, hi int) {
			switch op.Kind {
			case graph.SGD:
				u.sgd(lo, hi)
			case graph.Momentum:
				u.momentum(lo, hi)
			case graph.RMSProp:
				u.rmsProp(lo, hi)
			case graph.Adam:
				u.adam(lo, hi, 0)
			case graph.AdamW:
				u.adam(lo, hi, u.set.WeightDecay)
			}
		})
	}
}

type updater[T float] struct {
	set        graph.Settings
	iter       int
	bugs       bool
	w, g, m, v []T
}

// gradient returns the gradient of element i after regularisation by what of has, batch size and clipping.
func (u *updater[T]) gradient(i int, of []T) T {
	g, h := u.g[i], &u.set
	if h.L1 != 0 {
		g += T(h.L1) * sign(of[i])
	}
	if h.L2 != 0 {
		g += T(h.L2) * of[i]
	}
	if h.Batch > 1 {
		g *= 1 / T(h.Batch)
	}
	return u.clip(g)
}

func (u *updater[T]) clip(g T) T {
	if c := T(u.set.Clip); c > 0 {
		return min(max(g, -c), c)
	}
	return g
}

func sign[T float](x T) T { return truth[T](x > 0) - truth[T](x < 0) }

func (u *updater[T]) sgd(lo, hi int) {
	rate := T(u.set.LearnRate)
	if u.set.L1 == 0 && u.set.L2 == 0 && u.set.Batch <= 1 && u.set.Clip == 0 {
		w, g := u.w[lo:hi], u.g[lo:hi]
		for i, d := range g {
			w[i] -= rate * d
		}
		return
	}
	for i := lo; i < hi; i++ {
		u.w[i] -= rate * u.gradient(i, u.w)
	}
}

// momentum: Gorgonia regularises by the momentum in place of the weights.
func (u *updater[T]) momentum(lo, hi int) {
	rate, momentum, of := T(u.set.LearnRate), T(u.set.Momentum), u.w
	if u.bugs {
		of = u.m
	}
	for i := lo; i < hi; i++ {
		u.m[i] = u.m[i]*momentum - rate*u.gradient(i, of)
		u.w[i] += u.m[i]
	}
}

// rmsProp: as in Gorgonia, the mean of squares is that of gradients which are not clipped, and L2 is taken off the
// weights themselves.
func (u *updater[T]) rmsProp(lo, hi int) {
	rho, rest, eps, rate, l2 := T(u.set.Rho), T(1-u.set.Rho), T(u.set.Eps), T(u.set.LearnRate), T(u.set.L2)
	for i := lo; i < hi; i++ {
		g := u.g[i]
		u.m[i] = u.m[i]*rho + g*g*rest
		step := u.clip(g) * rate / T(math.Sqrt(float64(u.m[i]+eps)))
		u.w[i] -= step + l2*u.w[i]
	}
}

// adam moves each weight by the ratio of its gradient's means. With a decay it is AdamW, Loshchilov and Hutter
// (2019), as PyTorch has it: the weights decay apart from the gradient.
func (u *updater[T]) adam(lo, hi int, weightDecay float64) {
	h := &u.set
	beta1, beta2, eps, rate := T(h.Beta1), T(h.Beta2), T(h.Eps), T(h.LearnRate)
	correct1 := T(1 / (1 - math.Pow(h.Beta1, float64(u.iter))))
	correct2 := T(1 / (1 - math.Pow(h.Beta2, float64(u.iter))))
	decay := T(1 - h.LearnRate*weightDecay)
	for i := lo; i < hi; i++ {
		g := u.gradient(i, u.w)
		u.m[i] = beta1*u.m[i] + (1-beta1)*g
		u.v[i] = beta2*u.v[i] + (1-beta2)*g*g
		u.w[i] = u.w[i]*decay - rate*(u.m[i]*correct1)/(T(math.Sqrt(float64(u.v[i]*correct2)))+eps)
	}
}
