package asynccopy

// This file has the options that a device is opened with.

import "fmt"

// Option is a setting of Open, OpenSoft and OpenDefault.
type Option func(*options) error

type options struct {
	trace  *Trace
	memory int64
	limit  int64
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

// WithDeviceLimit bounds the memory that tensors take on the device, what is kept for later included, in bytes:
// beyond it allocations fail with ErrOutOfMemory, as if the device had no more. Sizes are rounded up to 512 bytes,
// those above 4 KiB by up to an eighth. What the driver needs for itself comes on top. Without the option there
// is no limit but the device's.
func WithDeviceLimit(bytes int64) Option {
	return func(o *options) error {
		if bytes <= 0 {
			return fmt.Errorf("WithDeviceLimit: bytes is %d, want at least 1", bytes)
		}
		o.limit = bytes
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
