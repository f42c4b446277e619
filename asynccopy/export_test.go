package asynccopy

// This file opens to the tests what they set up and look into.

import (
	"flag"
	"testing"

	"github.com/pintensor/pin/internal/cuda"
	"github.com/pintensor/pin/pintensor"
)

// SetEngine replaces pintensor.Default for what d lends. Call it before d is used.
func (d *Device) SetEngine(e *pintensor.Engine) {
	if d == nil {
		return
	}
	d.engine = func() *pintensor.Engine { return e }
}

// LoadCUDA returns the driver that Open uses.
var LoadCUDA = cuda.Load

// Smallest is the size in bytes above which a copy of pageable memory goes on in goroutines.
const Smallest = smallest

// Largest is twice the size of the largest chunk in tests: copies that need every chunk twice are then a few MiB.
// Under the race detector each byte of a copy costs five.
const Largest = 512 << 10

// TestMain leaves chunks as they are for benchmarks.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		largest = Largest / 2
	}
	m.Run()
}

// MaxFollowed is how many pieces of work a trace follows at a time.
const MaxFollowed = maxFollowed
