package devicevm_test

// This file has what a GPU can refuse.

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"gorgonia.org/tensor"
)

// A device that is too old for the kernels is refused with what it takes.
func TestOldDevice(t *testing.T) {
	leak.Check(t)
	for _, code := range []int{209, 222} {
		faults := drivertest.NewFaulty(kinds[kind].driver(t))
		dev := open(t, faults)
		faults.FailNth("LoadModule", 1, &driver.Error{Call: "cuModuleLoadDataEx", Code: code, Text: "too old"})
		vm, err := devicevm.New(newNetwork(t, tiny, tensor.Float32, 4).graph, dev)
		if !errors.Is(err, devicevm.ErrUnsupported) || !strings.Contains(err.Error(), "compute capability 7.0") || vm != nil {
			t.Errorf("code %d: VM %v, error %v", code, vm, err)
		}
		var failed *driver.Error
		if !errors.As(err, &failed) || failed.Code != code {
			t.Errorf("code %d: error %v", code, err)
		}
	}
}
