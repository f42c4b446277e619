// The device that the network is trained on.

package main

import (
	"errors"
	"fmt"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
)

// openNetwork returns a network on the device that the flag -device names, and the device. With auto that is the
// first CUDA device, or the software device where there is none, or none that networks run on.
func openNetwork[T float](m model[T], cfg config) (*network[T], *asynccopy.Device, error) {
	dev, err := openDevice(cfg.device)
	if err != nil {
		return nil, nil, err
	}
	net, err := newNetwork(m, dev, cfg.batch, cfg.newSolver(), cfg.seed)
	if err == nil {
		return net, dev, nil
	}
	closing := dev.Close()
	if cfg.device == "auto" && dev.IsCUDA() && closing == nil && errors.Is(err, devicevm.ErrUnsupported) {
		cfg.device = "cpu"
		return openNetwork(m, cfg)
	}
	return nil, nil, errors.Join(err, closing)
}

func openDevice(name string) (*asynccopy.Device, error) {
	switch name {
	case "cuda":
		dev, err := asynccopy.Open(0)
		if errors.Is(err, asynccopy.ErrUnavailable) {
			err = fmt.Errorf("-device cuda: %w (-device auto or cpu works without a GPU)", err)
		}
		return dev, err
	case "cpu":
		return asynccopy.OpenSoft()
	}
	return asynccopy.OpenDefault()
}
