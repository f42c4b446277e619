// The solver, and how fast it learns.

package main

import G "gorgonia.org/gorgonia"

// newSolver returns the solver that the flag -solver names.
func (c *config) newSolver() G.Solver {
	rate := G.WithLearnRate(c.learningRate)
	switch c.solver {
	case "momentum":
		return G.NewMomentum(rate)
	case "adam":
		return G.NewAdamSolver(rate)
	}
	return G.NewVanillaSolver(rate)
}

// learningRate is what suits a solver, found by trying. With larger batches there are fewer steps, on gradients that
// are less noisy, so each may be longer: in proportion for the two whose steps are. Adam's are about as long as its rate.
func learningRate(solver string, batch int) float64 {
	more := max(float64(batch), 1) / 64
	switch solver {
	case "momentum":
		return 0.02 * more
	case "adam":
		return 0.001
	}
	return 0.1 * more
}
