package pin_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// A tensor goes to the device and back while the program does something else.
func Example_copy() {
	ctx := context.Background()
	dev, err := asynccopy.OpenDefault() // the first CUDA device, or the one in software
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()

	host, err := pintensor.New(tensor.Float32, 2, 3) // pinned and zeroed
	if err != nil {
		log.Fatal(err)
	}
	copy(host.Data().([]float32), []float32{1, 2, 3, 4, 5, 6})

	x, err := stream.ToDevice(host, true) // returns at once; host must not change until x is ready
	if err != nil {
		log.Fatal(err)
	}
	download, err := stream.ToHost(x, true) // runs after the copy in, without being told to
	if err != nil {
		log.Fatal(err)
	}

	// ... other work ...

	back, err := download.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.Shape(), back.Data())

	// Without these the garbage collector finds the memory, only later.
	x.Release()
	pintensor.Release(back)
	pintensor.Release(host)
	// Output: (2, 3) [1 2 3 4 5 6]
}

// A loader reads samples in parallel, straight into pinned batches.
func Example_load() {
	squares := dataloader.FromFunc(10,
		[]dataloader.Field{{Name: "n", Dtype: tensor.Float32}, {Name: "square", Dtype: tensor.Float32}},
		func(_ context.Context, i int, row dataloader.Row) error {
			dataloader.Values[float32](row, 0)[0] = float32(i)
			dataloader.Values[float32](row, 1)[0] = float32(i * i)
			return nil
		})
	loader, err := dataloader.New(squares, dataloader.Config{BatchSize: 4, Workers: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()

	for batch, err := range loader.Batches(context.Background()) { // one epoch
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Host(1).Data()) // valid until the next turn of the loop
	}
	// Output:
	// [0 1 4 9]
	// [16 25 36 49]
	// [64 81]
}

// A Gorgonia graph learns y = 3x + 2 from a loader's batches.
func Example_train() {
	const batchSize = 8
	line := dataloader.FromFunc(64,
		[]dataloader.Field{{Name: "x", Dtype: tensor.Float32, Shape: tensor.Shape{1}}, {Name: "y", Dtype: tensor.Float32, Shape: tensor.Shape{1}}},
		func(_ context.Context, i int, row dataloader.Row) error {
			x := float32(i)/32 - 1
			dataloader.Values[float32](row, 0)[0] = x
			dataloader.Values[float32](row, 1)[0] = 3*x + 2
			return nil
		})
	loader, err := dataloader.New(line, dataloader.Config{BatchSize: batchSize, Shuffle: true, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer loader.Close()

	g := gorgonia.NewGraph()
	x := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(batchSize, 1), gorgonia.WithName("x"))
	y := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(batchSize, 1), gorgonia.WithName("y"))
	w := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(1, 1), gorgonia.WithName("w"), gorgonia.WithInit(gorgonia.Zeroes()))
	b := gorgonia.NewMatrix(g, gorgonia.Float32, gorgonia.WithShape(1, 1), gorgonia.WithName("b"), gorgonia.WithInit(gorgonia.Zeroes()))
	predicted := gorgonia.Must(gorgonia.BroadcastAdd(gorgonia.Must(gorgonia.Mul(x, w)), b, nil, []byte{0}))
	loss := gorgonia.Must(gorgonia.Mean(gorgonia.Must(gorgonia.Square(gorgonia.Must(gorgonia.Sub(predicted, y))))))
	if _, err := gorgonia.Grad(loss, w, b); err != nil {
		log.Fatal(err)
	}
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	solver := gorgonia.NewVanillaSolver(gorgonia.WithLearnRate(0.2))
	vm, err := devicevm.New(g, dev, devicevm.WithSolver(solver)) // in place of NewTapeMachine
	if err != nil {
		log.Fatal(err)
	}
	defer vm.Close()
	for range 40 {
		for batch, err := range loader.Batches(context.Background()) {
			if err != nil {
				log.Fatal(err)
			}
			// The graph takes exactly batchSize rows; where the data set's length is no multiple of that, see
			// dataloader.PadLast.
			if err := errors.Join(vm.Let(x, batch.Host(0)), vm.Let(y, batch.Host(1)), vm.RunAll()); err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := vm.Sync(); err != nil { // the trained weights, back in w and b
		log.Fatal(err)
	}
	fmt.Printf("y = %.2fx + %.2f\n", w.Value().Data().([]float32)[0], b.Value().Data().([]float32)[0])
	// Output: y = 3.00x + 2.00
}
