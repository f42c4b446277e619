package driver

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable: there is no such driver or device on this machine.
	ErrUnavailable = errors.New("device unavailable")

	// ErrOutOfMemory: the device (or, registering, the host) has not enough memory.
	ErrOutOfMemory = errors.New("out of memory")

	// ErrNotSupported: the driver is too old, or the device does not have the feature.
	ErrNotSupported = errors.New("not supported")

	// ErrClosed: the device was closed.
	ErrClosed = errors.New("closed")
)

// Codes that every implementation uses with CUDA's meaning (CUresult in the CUDA driver API reference,
// "Data types used by CUDA driver").
const (
	CodeInvalidValue       = 1
	CodeOutOfMemory        = 2
	CodeInvalidDevice      = 101
	CodeInvalidContext     = 201
	CodeInvalidPTX         = 218
	CodeInvalidHandle      = 400
	CodeNotFound           = 500
	CodeNotReady           = 600
	CodeIllegalAddress     = 700
	CodeAlreadyRegister    = 712
	CodeNotRegistered      = 713
	CodeMisalignedAddress  = 716
	CodeLaunchFailure      = 719
	CodeNotSupported       = 801
	CodeCaptureUnsupported = 900
	CodeCaptureInvalidated = 901
)

// Error is a driver call that failed.
type Error struct {
	Call string // the driver's own name of the call, such as "cuMemAlloc"
	Code int    // the driver's result code
	Name string // the code's name, such as "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // what the driver says of it
}

// Error returns "call: text (code)".
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code)
}

// Is reports whether e is of the kind of target, one of this package's sentinel errors.
func (e *Error) Is(target error) bool {
	if e == nil {
		return false
	}
	switch target {
	case ErrOutOfMemory:
		return e.Code == CodeOutOfMemory
	case ErrNotSupported:
		return e.Code == CodeNotSupported
	case ErrUnavailable:
		return e.Code == CodeInvalidDevice
	}
	return false
}

// Sticky reports whether the error makes its context unusable for good: every later call on the
// device returns it, and only a new process can use the device again. Such are the codes of which cuda.h
// says that the process must be terminated and relaunched, or that the context can't be used any more.
func (e *Error) Sticky() bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case CodeIllegalAddress, CodeLaunchFailure,
		226, // error contained by the GPU
		702, // launch timeout
		710, // device-side assert
		714, // hardware stack error
		715, // illegal instruction
		CodeMisalignedAddress,
		717, // invalid address space
		718, // invalid program counter
		721, // tensor memory leak
		810, // MPS client terminated
		911: // error of an external device
		return true
	}
	return false
}
