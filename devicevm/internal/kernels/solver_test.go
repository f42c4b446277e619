package kernels

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSolvers(t *testing.T) { each(t, testSolvers[float32], testSolvers[float64]) }

func testSolvers[T float](t *testing.T) {
	for name, base := range map[string]Settings{
		"sgd":      {},
		"momentum": {Beta1: 0.9},
		"rmsprop":  {Beta2: 0.999, Epsilon: 1e-8},
		"adam":     {Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8},
	} {
		for _, extra := range []Settings{{}, {L1: 0.01}, {L2: 0.1}, {Clip: 0.5}, {L1: 0.01, L2: 0.1, Clip: 0.5, Decay: 0.01}, {L1: 0.01, L2: 0.1, Upstream: 1}} {
			s := base
			s.L1, s.L2, s.Clip, s.Decay, s.Upstream = extra.L1, extra.L2, extra.Clip, extra.Decay, extra.Upstream
			s.Rate, s.Scale, s.Power1, s.Power2 = 0.1, 0.25, 1, 1
			testSolver[T](t, name, s)
		}
	}
}

// testSolver takes three steps with tensors of different sizes.
func testSolver[T float](t *testing.T, name string, s Settings) {
	rng := rand.New(rand.NewPCG(21, 22))
	sizes := []int{1, 2*Updates - 3, 700}
	var weights, grads, firsts, seconds [3][]T
	var wantW, wantM, wantV [3][]float64
	var all []Parameter
	for i, n := range sizes {
		weights[i], grads[i], firsts[i], seconds[i] = random[T](rng, n), random[T](rng, n), make([]T, n), make([]T, n)
		if n > 1 {
			weights[i][1] = 0 // has no sign
		}
		for k := range grads[i] {
			grads[i][k] *= 4
		}
		wantM[i], wantV[i] = make([]float64, n), make([]float64, n)
		for _, w := range weights[i] {
			wantW[i] = append(wantW[i], float64(w))
		}
		all = append(all, Parameter{address(t, weights[i]), address(t, grads[i]), address(t, firsts[i]), address(t, seconds[i]), uint32(n), 0})
	}
	for step := 1; step <= 3; step++ {
		if step == 3 {
			s.Rate = 0.05
		}
		run(t, "tick", [3]uint32{1, 1, 1}, &s)
		p, blocks := NewParameters(all...)
		run(t, name+suffix[T](), [3]uint32{blocks, 1, 1}, &s, p)
		for i := range sizes {
			for k, w := range wantW[i] {
				m, v := &wantM[i][k], &wantV[i][k]
				raw, of := float64(grads[i][k]), w
				if name == "momentum" && s.Upstream != 0 {
					of = *m
				}
				clip := func(g float64) float64 {
					if s.Clip > 0 {
						return min(max(g, -s.Clip), s.Clip)
					}
					return g
				}
				g := clip((raw + s.L1*sign(of) + s.L2*of) * s.Scale)
				switch name {
				case "sgd":
					w -= s.Rate * g
				case "momentum":
					*m = s.Beta1**m - s.Rate*g
					w += *m
				case "rmsprop":
					*m = s.Beta2**m + (1-s.Beta2)*raw*raw
					w -= s.Rate*clip(raw)/math.Sqrt(*m+s.Epsilon) + s.L2*w
				case "adam":
					*m = s.Beta1**m + (1-s.Beta1)*g
					*v = s.Beta2**v + (1-s.Beta2)*g*g
					mHat, vHat := *m/(1-math.Pow(s.Beta1, float64(step))), *v/(1-math.Pow(s.Beta2, float64(step)))
					w = w*(1-s.Rate*s.Decay) - s.Rate*mHat/(math.Sqrt(vHat)+s.Epsilon)
				}
				wantW[i][k] = w
			}
		}
	}
	if s.Steps != 3 {
		t.Errorf("%s: %v steps, want 3", name, s.Steps)
	}
	for i := range sizes {
		compare(t, name+": weights", weights[i], wantW[i])
		compare(t, name+": first moment", firsts[i], wantM[i])
		compare(t, name+": second moment", seconds[i], wantV[i])
	}
}
