package cpu

// This file runs operations that compute themselves, on copies of their operands.

import (
	"fmt"
	"strings"

	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/devicevm/internal/plan"
	G "gorgonia.org/gorgonia"
)

// host returns the step of an operation that is only known to compute itself. Its operands are copies: some
// operations turn theirs over, or return them.
func (r *Runner) host(s *plan.Step, op G.Op) (func() error, error) {
	return func() error {
		operands := make([]G.Value, len(s.In))
		for i, v := range s.In {
			operands[i] = host.New(v.Dtype, v.Shape)
			if v.N > 0 {
				copy(host.Bytes(operands[i]), r.mem.Bytes(v))
			}
		}
		result, err := do(op, operands)
		if err != nil {
			return err
		}
		return host.Copy(r.mem.Bytes(s.Out), result, s.Out.Dtype)
	}, nil
}

// do is op.Do with an error in place of a panic, and without Gorgonia's long texts about where it was.
func do(op G.Op, operands []G.Value) (result G.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v of %s panicked: %v", op, shapes(operands), p)
		}
	}()
	result, err = op.Do(operands...)
	if err == nil && result == nil {
		err = fmt.Errorf("%v gave no value", op)
	}
	return result, err
}

func shapes(values []G.Value) string {
	var list []string
	for _, v := range values {
		list = append(list, fmt.Sprint(v.Shape()))
	}
	return strings.Join(list, ", ")
}
