package devicevm_test

import (
	"testing"

	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/zerocall"
	"gorgonia.org/gorgonia"
)

// Every method of every type is called on values that nobody made.
func TestMethodsOfNilAndZero(t *testing.T) {
	leak.Check(t)
	_, x, _ := double()
	args := []any{x, gorgonia.Value(vector(1, 2, 3)), devicevm.State{}}
	for _, z := range []*devicevm.VM{nil, {}} {
		zerocall.Methods(t, z, "devicevm: ", args)
	}
	for _, z := range []*devicevm.NodeError{nil, {}} {
		zerocall.Methods(t, z, "", args, "Unwrap")
	}
}
