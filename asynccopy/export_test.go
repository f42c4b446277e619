package asynccopy

// This file opens to the tests what they set up and look into.

import (
	"github.com/pintensor/pin/internal/cuda"
	"github.com/pintensor/pin/pintensor"
)

// SetEngine replaces pintensor.Default for what d lends. Call it before d is used.
func (d *Device) SetEngine(e *pintensor.Engine) { d.engine = func() *pintensor.Engine { return e } }

// LoadCUDA returns the driver that Open uses.
var LoadCUDA = cuda.Load

// Smallest is the size in bytes above which a copy of pageable memory goes on in goroutines.
const Smallest = smallest

// Largest is the size of the largest chunk.
const Largest = largest
