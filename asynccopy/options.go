package asynccopy

// This file has the options that a device is opened with.

import "fmt"

// Option is a setting of Open, OpenSoft and OpenDefault.
type Option func(*options) error

type options struct {
	memory int64
}

// WithMemory sets the memory of the software device in bytes. Without it the device has 1 GiB, which is Go
// memory that is allocated as it is used. CUDA devices have the memory they have: Open refuses the option,
// and OpenDefault applies it when it opens the software device.
func WithMemory(bytes int64) Option {
	return func(o *options) error {
		if bytes <= 0 {
			return fmt.Errorf("WithMemory: bytes is %d, want at least 1", bytes)
		}
		o.memory = bytes
		return nil
	}
}

func apply(call string, opts []Option) (options, error) {
	var o options
	for i, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("asynccopy: %s: option %d is nil", call, i)
		}
		if err := opt(&o); err != nil {
			return o, fmt.Errorf("asynccopy: %s: %w", call, err)
		}
	}
	return o, nil
}
