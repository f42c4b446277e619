package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestBatchNorm(t *testing.T) { each(t, testBatchNorm[float32], testBatchNorm[float64]) }

func testBatchNorm[T float](t *testing.T) {
	const momentum, epsilon = 0.9, 1e-5
	rng := rand.New(rand.NewPCG(17, 18))
	for _, c := range []struct{ batch, channels, space int }{{4, 3, 5}, {64, 3, 1}, {2, 1, 300}, {1, 2, 1}} {
		size, n := c.batch*c.channels*c.space, c.batch*c.space
		x, dy := random[T](rng, size), random[T](rng, size)
		runningMean, runningVariance := random[T](rng, c.channels), make([]T, c.channels)
		for i := range runningVariance {
			runningVariance[i] = T(rng.Float64() + 0.5)
		}
		place := func(ch, k int) int { return (k/c.space*c.channels+ch)*c.space + k%c.space }

		wantY, wantDX, wantEval, wantEvalDX := make([]float64, size), make([]float64, size), make([]float64, size), make([]float64, size)
		wantMean, wantVariance := make([]float64, c.channels), make([]float64, c.channels)
		for ch := range c.channels {
			mean, variance := 0.0, 0.0
			for k := range n {
				mean += float64(x[place(ch, k)]) / float64(n)
			}
			for k := range n {
				d := float64(x[place(ch, k)]) - mean
				variance += d * d / float64(n)
			}
			inverse := 1 / math.Sqrt(variance+epsilon)
			sum, dot := 0.0, 0.0
			for k := range n {
				i := place(ch, k)
				wantY[i] = (float64(x[i]) - mean) * inverse
				sum += float64(dy[i]) / float64(n)
				dot += float64(dy[i]) * wantY[i] / float64(n)
				s := 1 / math.Sqrt(float64(runningVariance[ch])+epsilon)
				wantEval[i] = (float64(x[i]) - float64(runningMean[ch])) * s
				wantEvalDX[i] = float64(dy[i]) * s
			}
			for k := range n {
				i := place(ch, k)
				wantDX[i] = (float64(dy[i]) - sum - wantY[i]*dot) * inverse
			}
			unbiased := variance
			if n > 1 {
				unbiased *= float64(n) / float64(n-1)
			}
			wantMean[ch] = momentum*float64(runningMean[ch]) + (1-momentum)*mean
			wantVariance[ch] = momentum*float64(runningVariance[ch]) + (1-momentum)*unbiased
		}
		if n == 1 {
			// One element a channel has no variance: the gradient vanishes, but for rounding scaled up by 1/sqrt(epsilon).
			wantDX = make([]float64, size)
		}

		what, grid := fmt.Sprint(c), [3]uint32{uint32(c.channels), 1, 1}
		eval, evalDX := make([]T, size), make([]T, size)
		sfx, size32, ch32, sp32, b32 := suffix[T](), uint32(size), uint32(c.channels), uint32(c.space), uint32(c.batch)
		run(t, "batch_norm_eval"+sfx, [3]uint32{2, 1, 1}, x, eval, runningMean, runningVariance, size32, ch32, sp32, T(epsilon))
		compare(t, what+" eval", eval, wantEval)
		run(t, "batch_norm_eval"+sfx, [3]uint32{2, 1, 1}, dy, evalDX, []T(nil), runningVariance, size32, ch32, sp32, T(epsilon))
		compare(t, what+" eval diff", evalDX, wantEvalDX)

		y, dx, mean, inverse := make([]T, size), make([]T, size), make([]T, c.channels), make([]T, c.channels)
		run(t, "batch_norm"+sfx, grid, x, y, mean, inverse, runningMean, runningVariance, b32, ch32, sp32, T(momentum), T(epsilon))
		compare(t, what, y, wantY)
		compare(t, what+" running mean", runningMean, wantMean)
		compare(t, what+" running variance", runningVariance, wantVariance)
		run(t, "batch_norm_diff"+sfx, grid, x, dy, mean, inverse, dx, b32, ch32, sp32)
		compare(t, what+" diff", dx, wantDX)
	}
}
