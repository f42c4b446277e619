package main

import (
	G "gorgonia.org/gorgonia"
)

// trainTape trains on the batches with Gorgonia's own machine, and returns the loss of each.
func trainTape(batches []batch) (losses []float64, err error) {
	net := build()
	solver := G.NewAdamSolver(G.WithLearnRate(0.01))
	vm := G.NewTapeMachine(net.graph, G.BindDualValues(net.weights...))
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
		if err := solver.Step(G.NodesToValueGrads(net.weights)); err != nil {
			return nil, err
		}
		losses = append(losses, net.loss.Data().(float64))
		vm.Reset()
	}
	return losses, nil
}
