package asynccopy

// This file has the options that a device is opened with.

import "fmt"

// Option is a setting of Open, OpenSoft and OpenDefault.
type Option func(*options) error

type options struct {
	trace *Trace
	staging
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

// WithStaging sets how copies of more than 256 KiB from or to memory that is not page-locked are staged: by how many
// goroutines each, from 1 to 64, with page-locked chunks of how many bytes, from 4 KiB to 1 GiB; there are four for each
// goroutine. 0 is what copies choose for themselves: as many goroutines as cores, at most 8, and chunks of 256 KiB to 2 MiB, by
// the size of the copy. Measure before changing it: BenchmarkStaging in this package compares.
func WithStaging(goroutines, chunkBytes int) Option {
	return func(o *options) error {
		if goroutines < 0 || goroutines > 64 {
			return fmt.Errorf("WithStaging: goroutines is %d, want 1 to 64, or 0", goroutines)
		}
		if chunkBytes != 0 && (chunkBytes < 4<<10 || chunkBytes > 1<<30) {
			return fmt.Errorf("WithStaging: chunkBytes is %d, want 4096 to %d, or 0", chunkBytes, 1<<30)
		}
		o.staging = staging{goroutines, chunkBytes}
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
