package cpu

// This file has batch normalisation per channel, without scale and bias, which are operations of their own.

import (
	"math"

	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
)

// channels are where the elements of each channel lie: (batch, channels, space).
type channels struct{ batch, count, space int }

func channelsOf(shape []int) channels {
	batch, count, space := plan.ChannelsOf(shape)
	return channels{batch, count, space}
}

func (c channels) each(channel int, f func(lo, hi int)) {
	for b := range c.batch {
		lo := (b*c.count + channel) * c.space
		f(lo, lo+c.space)
	}
}

// batchNorm gives (x - mean) / sqrt(variance + epsilon). In training these are the batch's, and the running
// ones move towards them by the momentum; the running variance is that of a sample, divided by n-1. Otherwise they
// are the running ones.
func batchNorm[T float](r *Runner, s *plan.Step, op graph.BatchNorm) func() {
	c := channelsOf(s.Out.Shape)
	n := float64(c.batch * c.space)
	return func() {
		x, y := values[T](r.mem, s.In[0]), values[T](r.mem, s.Out)
		saved, running := values[T](r.mem, s.Aux), values[T](r.mem, s.State)
		parallel(c.count, max(grain/max(c.batch*c.space, 1), 1), func(lo, hi int) {
			for k := lo; k < hi; k++ {
				mean, variance := float64(running[k]), float64(running[c.count+k])
				if !s.Eval {
					var squares float64
					mean, squares = moments(x, c, k)
					variance = squares / n
					running[k] = T(op.Momentum*mean + (1-op.Momentum)*float64(running[k]))
					running[c.count+k] = T(op.Momentum*squares/(n-1) + (1-op.Momentum)*float64(running[c.count+k]))
				}
				inv := 1 / math.Sqrt(variance+op.Epsilon)
				saved[k], saved[c.count+k] = T(mean), T(inv)
				scale, shift := T(inv), T(-mean*inv)
				c.each(k, func(lo, hi int) {
					from, to := x[lo:hi], y[lo:hi]
					for i, v := range from {
						to[i] = v*scale + shift
					}
				})
			}
		})
	}
}

// moments returns a channel's mean, and the sum of the squares of what differs from it.
func moments[T float](x []T, c channels, k int) (mean, squares float64) {
	var total float64
	c.each(k, func(lo, hi int) {
		for _, v := range x[lo:hi] {
			total += float64(v)
		}
	})
	mean = total / float64(c.batch*c.space)
	c.each(k, func(lo, hi int) {
		for _, v := range x[lo:hi] {
			d := float64(v) - mean
			squares += d * d
		}
	})
	return mean, squares
}

func batchNormDiff[T float](r *Runner, s *plan.Step) func() {
	c := channelsOf(s.Out.Shape)
	n := float64(c.batch * c.space)
	return func() {
		x, dy, dx, saved := values[T](r.mem, s.In[0]), values[T](r.mem, s.In[1]), values[T](r.mem, s.Out), values[T](r.mem, s.Aux)
		parallel(c.count, max(grain/max(c.batch*c.space, 1), 1), func(lo, hi int) {
			for k := lo; k < hi; k++ {
				mean, inv := float64(saved[k]), float64(saved[c.count+k])
				var total, product float64
				if !s.Eval {
					c.each(k, func(lo, hi int) {
						for i := lo; i < hi; i++ {
							total += float64(dy[i])
							product += (float64(x[i]) - mean) * float64(dy[i])
						}
					})
				}
				slope, offset := product*inv*inv/n, total/n
				c.each(k, func(lo, hi int) {
					for i := lo; i < hi; i++ {
						dx[i] = T((float64(dy[i]) - offset - (float64(x[i])-mean)*slope) * inv)
					}
				})
			}
		})
	}
}
