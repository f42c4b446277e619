package graph

// This file reads the settings of Gorgonia's solvers.

import (
	"fmt"
	"reflect"

	G "gorgonia.org/gorgonia"
)

// SolverKind is one of Gorgonia's solvers.
type SolverKind uint8

const (
	SGD      SolverKind = iota // *gorgonia.VanillaSolver
	Momentum                   // *gorgonia.Momentum
	RMSProp                    // *gorgonia.RMSPropSolver
	Adam                       // *gorgonia.AdamSolver
	AdamW                      // *gorgonia.AdamW
)

// Moments returns how many numbers per weight the solver keeps.
func (k SolverKind) Moments() int {
	switch k {
	case Momentum, RMSProp:
		return 1
	case Adam, AdamW:
		return 2
	}
	return 0
}

// Settings are those of a solver, with the names of Gorgonia's options.
type Settings struct {
	LearnRate, Momentum, Beta1, Beta2, Rho, Eps, WeightDecay float64
	L1, L2, Clip, Batch                                      float64 // 0: not used
}

// KindOf returns which solver s is.
func KindOf(s G.Solver) (SolverKind, error) {
	switch s := s.(type) {
	case *G.VanillaSolver:
		return SGD, some(s)
	case *G.Momentum:
		return Momentum, some(s)
	case *G.RMSPropSolver:
		return RMSProp, some(s)
	case *G.AdamSolver:
		return Adam, some(s)
	case *G.AdamW:
		return AdamW, some(s)
	}
	return 0, fmt.Errorf("a solver of type %T, want one of gorgonia's VanillaSolver, Momentum, RMSPropSolver, AdamSolver, AdamW", s)
}

func some[T any](p *T) error {
	if p == nil {
		return fmt.Errorf("a nil %T", p)
	}
	return nil
}

// SettingsOf reads the settings that s has now.
func SettingsOf(s G.Solver) (Settings, error) {
	kind, err := KindOf(s)
	if err != nil {
		return Settings{}, err
	}
	f := fieldsOf(s)
	var set Settings
	if kind == AdamW {
		set.LearnRate, set.Beta1, set.Beta2 = f.float("η"), f.float("β1"), f.float("β2")
		set.Eps, set.WeightDecay = f.float("ɛ"), f.float("λ")
	} else {
		set.LearnRate = f.float("eta")
	}
	switch kind {
	case Momentum:
		set.Momentum = f.float("momentum")
	case RMSProp:
		set.Rho, set.Eps = f.float("decay"), f.float("eps")
	case Adam:
		set.Beta1, set.Beta2, set.Eps = f.float("beta1"), f.float("beta2"), f.float("eps")
	}
	set.Clip = f.floatIf("useClip", "clip")
	set.L2 = f.floatIf("useL2Reg", "l2reg")
	if kind != RMSProp {
		set.L1, set.Batch = f.floatIf("useL1Reg", "l1reg"), f.float("batch")
	}
	return set, f.err
}

// floatIf returns a field that another one switches on, else 0.
func (f *fields) floatIf(on, name string) float64 {
	if v := f.get(on, reflect.Bool); v.IsValid() && v.Bool() {
		return f.float(name)
	}
	return 0
}
