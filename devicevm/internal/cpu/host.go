package cpu

// This file runs operations that compute themselves, on copies of their operands.

import (
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
		result, err := host.Do(op, operands)
		if err != nil {
			return err
		}
		return host.Copy(r.mem.Bytes(s.Out), result, s.Out.Dtype)
	}, nil
}
