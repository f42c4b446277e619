package soft_test

import (
	"testing"
	"time"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	"github.com/pintensor/pin/internal/soft"
)

func TestConformance(t *testing.T) {
	leak.Check(t)
	for name, config := range map[string]soft.Config{
		"eager":   {Devices: 2},
		"late":    {Devices: 2, Late: true},
		"delayed": {Delay: func(op soft.Op) time.Duration { return time.Duration(op.N%3) * 10 * time.Microsecond }},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(*testing.T) driver.Driver { return soft.New(config) })
		})
	}
}
