package devicevm_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A line through noiseless points, learnt on a device.
func Example() {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float64, G.WithShape(4), G.WithName("x"))
	y := G.NewVector(g, tensor.Float64, G.WithShape(4), G.WithName("y"))
	slope := G.NewScalar(g, tensor.Float64, G.WithValue(0.0), G.WithName("slope"))
	offset := G.NewScalar(g, tensor.Float64, G.WithValue(0.0), G.WithName("offset"))
	line := G.Must(G.Add(G.Must(G.Mul(x, slope)), offset))
	cost := G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(line, y))))))
	if _, err := G.Grad(cost, slope, offset); err != nil {
		log.Fatal(err)
	}

	dev, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	vm, err := devicevm.New(g, dev, devicevm.WithSolver(G.NewVanillaSolver(G.WithLearnRate(0.1))))
	if err != nil {
		log.Fatal(err)
	}
	defer vm.Close()

	xs, ys := tensor.New(tensor.WithBacking([]float64{0, 1, 2, 3})), tensor.New(tensor.WithBacking([]float64{1, 3, 5, 7}))
	if err := errors.Join(vm.Let(x, xs), vm.Let(y, ys)); err != nil {
		log.Fatal(err)
	}
	for range 300 {
		if err := vm.RunAll(); err != nil {
			log.Fatal(err)
		}
	}
	if err := vm.Sync(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.3f x + %.3f, cost %.3f\n", slope.Value().Data(), offset.Value().Data(), cost.Value().Data())
	// Output: 2.000 x + 1.000, cost 0.000
}
