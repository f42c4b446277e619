package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBatchNorm(t *testing.T) { each(t, testBatchNorm[float32], testBatchNorm[float64]) }

func testBatchNorm[T float](t *testing.T) {
	const momentum, epsilon = 0.2, 1e-3
	rng := rand.New(rand.NewPCG(17, 18))
	for _, c := range []struct{ batch, channels, space int }{{4, 3, 5}, {64, 3, 1}, {2, 1, 300}, {2, 2, 1}} {
		size, n := c.batch*c.channels*c.space, c.batch*c.space
		x, dy, running := random[T](rng, size), random[T](rng, size), random[T](rng, 2*c.channels)
		for i := c.channels; i < 2*c.channels; i++ {
			running[i] = T(rng.Float64() + 0.5)
		}
		place := func(ch, k int) int { return (k/c.space*c.channels+ch)*c.space + k%c.space }
		for eval := range uint32(2) {
			wantY, wantDX, wantRunning, wantSaved := make([]float64, size), make([]float64, size), make([]float64, 2*c.channels), make([]float64, 2*c.channels)
			for ch := range c.channels {
				mean, variance, squares := float64(running[ch]), float64(running[c.channels+ch]), 0.0
				wantRunning[ch], wantRunning[c.channels+ch] = mean, variance
				if eval == 0 {
					mean = 0
					for k := range n {
						mean += float64(x[place(ch, k)]) / float64(n)
					}
					for k := range n {
						d := float64(x[place(ch, k)]) - mean
						squares += d * d
					}
					variance = squares / float64(n)
					wantRunning[ch] = momentum*mean + (1-momentum)*wantRunning[ch]
					wantRunning[c.channels+ch] = momentum*squares/float64(n-1) + (1-momentum)*wantRunning[c.channels+ch]
				}
				inverse := 1 / math.Sqrt(variance+epsilon)
				wantSaved[ch], wantSaved[c.channels+ch] = mean, inverse
				sum, dot := 0.0, 0.0
				for k := range n {
					i := place(ch, k)
					wantY[i] = (float64(x[i]) - mean) * inverse
					if eval == 0 {
						sum += float64(dy[i]) / float64(n)
						dot += float64(dy[i]) * wantY[i] / float64(n)
					}
				}
				for k := range n {
					i := place(ch, k)
					wantDX[i] = (float64(dy[i]) - sum - wantY[i]*dot) * inverse
				}
			}
			what, grid := fmt.Sprint(c, " eval ", eval), [3]uint32{uint32(c.channels), 1, 1}
			batch, channels, space := uint32(c.batch), uint32(c.channels), uint32(c.space)
			y, dx, saved, moved := make([]T, size), make([]T, size), make([]T, 2*c.channels), slices.Clone(running)
			run(t, "batch_norm"+suffix[T](), grid, x, y, saved, moved, batch, channels, space, eval, T(momentum), T(epsilon))
			compare(t, what, y, wantY)
			compare(t, what+": saved", saved, wantSaved)
			compare(t, what+": running", moved, wantRunning)
			run(t, "batch_norm_diff"+suffix[T](), grid, x, dy, saved, dx, batch, channels, space, eval)
			compare(t, what+": diff", dx, wantDX)
		}
	}
}
