package driver

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorIsAndAs(t *testing.T) {
	sentinels := []error{ErrOutOfMemory, ErrNotSupported, ErrUnavailable, ErrClosed}
	for _, tc := range []struct {
		code   int
		want   error
		sticky bool
	}{
		{CodeOutOfMemory, ErrOutOfMemory, false},
		{CodeNotSupported, ErrNotSupported, false},
		{CodeInvalidDevice, ErrUnavailable, false},
		{CodeInvalidValue, nil, false},
		{CodeNotRegistered, nil, false},
		{CodeIllegalAddress, nil, true},
		{CodeLaunchFailure, nil, true},
		{226, nil, true},  // CUDA_ERROR_CONTAINED
		{720, nil, false}, // CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
		{721, nil, true},  // CUDA_ERROR_TENSOR_MEMORY_LEAK
	} {
		err := fmt.Errorf("asynccopy: %w", &Error{Call: "cuMemAlloc", Code: tc.code, Name: "CUDA_ERROR", Text: "text"})
		for _, sentinel := range sentinels {
			if got := errors.Is(err, sentinel); got != (sentinel == tc.want) {
				t.Errorf("code %d: errors.Is(err, %v) = %v", tc.code, sentinel, got)
			}
		}
		var de *Error
		if !errors.As(err, &de) || de.Code != tc.code {
			t.Errorf("code %d: errors.As gave %v", tc.code, de)
		}
		if de.Sticky() != tc.sticky {
			t.Errorf("code %d: Sticky() = %v, want %v", tc.code, de.Sticky(), tc.sticky)
		}
		if want := fmt.Sprintf("asynccopy: cuMemAlloc: text (%d)", tc.code); err.Error() != want {
			t.Errorf("text %q, want %q", err, want)
		}
	}
}
