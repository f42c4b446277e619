package asynccopy

// This file has the ways to open a device.

import (
	"errors"
	"fmt"

	"github.com/pintensor/pin/internal/cuda"
	"github.com/pintensor/pin/internal/soft"
)

// OpenSoft returns a new software device: it has the semantics of a CUDA device, in memory of the host.
// Streams run concurrently, and copies of any length return before they have run.
func OpenSoft(opts ...Option) (*Device, error) {
	o, err := apply("OpenSoft", opts)
	if err != nil {
		return nil, err
	}
	return open(soft.New(soft.Config{Memory: o.memory}), 0, o)
}

// Open returns the CUDA device with the given ordinal, from 0. Opening one twice gives two Devices, whose
// tensors and streams don't mix.
//
// Without a CUDA driver or device the error is ErrUnavailable and says what was tried.
func Open(ordinal int, opts ...Option) (*Device, error) {
	o, err := apply("Open", opts)
	if err != nil {
		return nil, err
	}
	if o.memory != 0 {
		return nil, errors.New("asynccopy: Open: WithMemory is for the software device")
	}
	return openCUDA(ordinal, o)
}

func openCUDA(ordinal int, o options) (*Device, error) {
	drv, err := cuda.Load()
	if err != nil {
		return nil, fmt.Errorf("asynccopy: Open: %w", err)
	}
	return open(drv, ordinal, o)
}

// OpenDefault returns the first CUDA device, or the software device if there is none. An error other than
// ErrUnavailable that opening the CUDA device met is returned.
func OpenDefault(opts ...Option) (*Device, error) {
	o, err := apply("OpenDefault", opts)
	if err != nil {
		return nil, err
	}
	d, err := openCUDA(0, o)
	if errors.Is(err, ErrUnavailable) {
		return OpenSoft(opts...)
	}
	return d, err
}
