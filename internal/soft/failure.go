package soft

// This file makes the errors, with CUDA's codes and names.

import (
	"errors"
	"fmt"

	"github.com/pintensor/pin/internal/driver"
)

// codeIllegalState is of a call that is not allowed now.
const codeIllegalState = 401

var codeNames = map[int]string{
	driver.CodeInvalidValue:       "CUDA_ERROR_INVALID_VALUE",
	driver.CodeOutOfMemory:        "CUDA_ERROR_OUT_OF_MEMORY",
	driver.CodeInvalidDevice:      "CUDA_ERROR_INVALID_DEVICE",
	driver.CodeInvalidHandle:      "CUDA_ERROR_INVALID_HANDLE",
	driver.CodeIllegalAddress:     "CUDA_ERROR_ILLEGAL_ADDRESS",
	driver.CodeAlreadyRegister:    "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	driver.CodeNotRegistered:      "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	driver.CodeLaunchFailure:      "CUDA_ERROR_LAUNCH_FAILED",
	driver.CodeNotSupported:       "CUDA_ERROR_NOT_SUPPORTED",
	driver.CodeNotFound:           "CUDA_ERROR_NOT_FOUND",
	driver.CodeNotReady:           "CUDA_ERROR_NOT_READY",
	codeIllegalState:              "CUDA_ERROR_ILLEGAL_STATE",
	driver.CodeCaptureUnsupported: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	driver.CodeCaptureInvalidated: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
}

func failure(method string, code int, format string, args ...any) *driver.Error {
	return &driver.Error{Call: "soft." + method, Code: code, Name: codeNames[code], Text: fmt.Sprintf(format, args...)}
}

func badHandle(method, kind string, handle uintptr) *driver.Error {
	return failure(method, driver.CodeInvalidHandle, "no %s %#x", kind, handle)
}

// asFailure makes what a Fail hook returned the result of an operation.
func asFailure(method string, err error) *driver.Error {
	var own *driver.Error
	if errors.As(err, &own) {
		return own
	}
	return failure(method, driver.CodeLaunchFailure, "%v", err)
}
