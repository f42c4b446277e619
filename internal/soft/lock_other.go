//go:build !linux && !darwin && !windows

package soft

// This file stands in for page-locking where we know no call for it.

import (
	"runtime"

	"github.com/pintensor/pin/internal/driver"
)

const lockName = "none"

func lockPages(addr, n uintptr) error {
	return failure("Register", driver.CodeNotSupported, "memory can't be page-locked on %s", runtime.GOOS)
}

func unlockPages(addr, n uintptr) error { return nil }
