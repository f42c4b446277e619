package asynccopy

import (
	"fmt"

	"github.com/pintensor/pin/internal/driver"
)

func loadCUDA() (driver.Driver, error) {
	return nil, fmt.Errorf("no CUDA driver yet: %w", ErrUnavailable)
}
