package main

import (
	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	G "gorgonia.org/gorgonia"
)

// trainDevice trains on the batches on a GPU, or without one on the software device, and returns the loss of each.
func trainDevice(batches []batch) (losses []float64, err error) {
	net := build()
	solver := G.NewAdamSolver(G.WithLearnRate(0.01))
	dev, err := asynccopy.OpenDefault()
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	vm, err := devicevm.New(net.graph, dev, devicevm.WithSolver(solver))
	if err != nil {
		return nil, err
	}
	defer vm.Close()

	for _, b := range batches {
		if err := G.Let(net.x, b.x); err != nil {
			return nil, err
		}
		if err := G.Let(net.y, b.y); err != nil {
			return nil, err
		}
		if err := vm.RunAll(); err != nil {
			return nil, err
		}
		losses = append(losses, net.loss.Data().(float64))
	}
	return losses, nil
}
