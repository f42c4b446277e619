package soft

// This file locks pages with VirtualLock.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"

	"github.com/pintensor/pin/internal/driver"
)

const lockName = "VirtualLock"

func lockPages(addr, n uintptr) error {
	err := windows.VirtualLock(addr, n)
	if err == nil {
		return nil
	}
	code, text := driver.CodeInvalidValue, fmt.Sprintf("%d bytes at %#x: %v", n, addr, err)
	if errors.Is(err, windows.ERROR_WORKING_SET_QUOTA) || errors.Is(err, windows.ERROR_NOT_ENOUGH_MEMORY) {
		code, text = driver.CodeOutOfMemory, fmt.Sprintf(
			"%d bytes: %v: the process's minimum working set is the limit; raise it with SetProcessWorkingSetSize", n, err)
	}
	return &driver.Error{Call: "VirtualLock", Code: code, Name: codeNames[code], Text: text}
}

func unlockPages(addr, n uintptr) error {
	err := windows.VirtualUnlock(addr, n)
	// Pages of a range that could only be locked in part are not locked, which is what we want.
	if err == nil || errors.Is(err, windows.ERROR_NOT_LOCKED) {
		return nil
	}
	return &driver.Error{
		Call: "VirtualUnlock", Code: driver.CodeInvalidValue, Name: codeNames[driver.CodeInvalidValue],
		Text: fmt.Sprintf("%d bytes at %#x: %v", n, addr, err),
	}
}
