package devicevm_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"log"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// proportional is a graph of y = slope x, for batches of n points.
type proportional struct {
	graph             *G.ExprGraph
	x, y, slope, line *G.Node
	cost              *G.Node // of a graph to train
}

// newProportional returns the graph. To be trained it needs a cost, and the gradient of that.
func newProportional(n int, train bool) proportional {
	g := G.NewGraph()
	p := proportional{
		graph: g,
		x:     G.NewVector(g, tensor.Float64, G.WithShape(n), G.WithName("x")),
		slope: G.NewScalar(g, tensor.Float64, G.WithValue(0.0), G.WithName("slope")),
	}
	p.line = G.Must(G.Mul(p.x, p.slope))
	if train {
		p.y = G.NewVector(g, tensor.Float64, G.WithShape(n), G.WithName("y"))
		p.cost = G.Must(G.Mean(G.Must(G.Square(G.Must(G.Sub(p.line, p.y))))))
		if _, err := G.Grad(p.cost, p.slope); err != nil {
			log.Fatal(err)
		}
	}
	return p
}

// points gives a VM the points of y = 3x.
func (p proportional) points(vm *devicevm.VM) {
	x, y := tensor.New(tensor.WithBacking([]float64{1, 2})), tensor.New(tensor.WithBacking([]float64{3, 6}))
	if err := errors.Join(vm.Let(p.x, x), vm.Let(p.y, y)); err != nil {
		log.Fatal(err)
	}
}

func runTimes(vm *devicevm.VM, times int) {
	for range times {
		if err := vm.RunAll(); err != nil {
			log.Fatal(err)
		}
	}
}

// A second graph, for batches of another size and without gradients, uses the weights that the first one trains.
func ExampleWithWeightsFrom() {
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	train := newProportional(2, true)
	trainer, err := devicevm.New(train.graph, dev, devicevm.WithSolver(G.NewVanillaSolver(G.WithLearnRate(0.1))))
	if err != nil {
		log.Fatal(err)
	}
	defer trainer.Close()
	use := newProportional(3, false) // whose slope is the trainer's, by its name
	user, err := devicevm.New(use.graph, dev, devicevm.WithEval(), devicevm.WithWeightsFrom(trainer))
	if err != nil {
		log.Fatal(err)
	}
	defer user.Close()

	train.points(trainer)
	runTimes(trainer, 100)
	if err := user.Let(use.x, tensor.New(tensor.WithBacking([]float64{10, 20, 30}))); err != nil {
		log.Fatal(err)
	}
	runTimes(user, 1)
	fmt.Printf("%.3f\n", use.line.Value().Data())
	// Output: [30.000 60.000 90.000]
}

// A training is saved, and goes on in another VM, as it would in another process.
func ExampleVM_State() {
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	start := func() (*devicevm.VM, proportional) {
		p := newProportional(2, true)
		vm, err := devicevm.New(p.graph, dev, devicevm.WithSolver(G.NewAdamSolver(G.WithLearnRate(0.1))))
		if err != nil {
			log.Fatal(err)
		}
		p.points(vm)
		return vm, p
	}
	var file bytes.Buffer
	first, _ := start()
	defer first.Close()
	runTimes(first, 10)
	state, err := first.State()
	if err != nil {
		log.Fatal(err)
	}
	if err := gob.NewEncoder(&file).Encode(state); err != nil {
		log.Fatal(err)
	}
	runTimes(first, 10) // for comparison

	var saved devicevm.State
	if err := gob.NewDecoder(&file).Decode(&saved); err != nil {
		log.Fatal(err)
	}
	second, p := start()
	defer second.Close()
	if err := second.Restore(saved); err != nil {
		log.Fatal(err)
	}
	runTimes(second, 10)
	if err := errors.Join(first.Sync(), second.Sync()); err != nil {
		log.Fatal(err)
	}
	whole, err := first.State()
	if err != nil {
		log.Fatal(err)
	}
	resumed, err := second.State()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d steps, slope %.3f\n", resumed.Steps, p.slope.Value().Data())
	fmt.Println("to the bit:", bytes.Equal(whole.Values[0].Data, resumed.Values[0].Data))
	// Output:
	// 20 steps, slope 1.881
	// to the bit: true
}

// A run in which a number is none fails at the node that it comes from.
func ExampleWithNaNWatch() {
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("x"))
	G.Must(G.Exp(G.Must(G.Sqrt(x))))
	vm, err := devicevm.New(g, dev, devicevm.WithNaNWatch())
	if err != nil {
		log.Fatal(err)
	}
	defer vm.Close()
	if err := vm.Let(x, tensor.New(tensor.WithBacking([]float64{4, 9, -1}))); err != nil {
		log.Fatal(err)
	}
	err = vm.RunAll()
	var node *devicevm.NodeError
	fmt.Println(errors.Is(err, devicevm.ErrNaN), errors.As(err, &node) && node.Node.Op().String() == "sqrt")
	// Output: true true
}

// A loop that looks at the cost now and then: on a GPU the steps between two looks are not waited for.
func ExampleWithReadEvery() {
	dev, err := asynccopy.OpenDefault()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	p := newProportional(2, true)
	solver := G.NewVanillaSolver(G.WithLearnRate(0.05))
	vm, err := devicevm.New(p.graph, dev, devicevm.WithSolver(solver), devicevm.WithReadEvery(10))
	if err != nil {
		log.Fatal(err)
	}
	for step := range 30 {
		p.points(vm)
		if err := vm.RunAll(); err != nil {
			log.Fatal(err)
		}
		if (step+1)%10 == 0 { // the runs that copy the cost to the host
			fmt.Printf("step %d: cost %.4f\n", step+1, p.cost.Value().Data())
		}
	}
	if err := vm.Close(); err != nil { // the slope, back in its node
		log.Fatal(err)
	}
	fmt.Printf("slope %.2f\n", p.slope.Value().Data())
	// Output:
	// step 10: cost 0.1268
	// step 20: cost 0.0004
	// step 30: cost 0.0000
	// slope 3.00
}
