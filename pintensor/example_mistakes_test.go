package pintensor_test

// This file has the examples of what finds mistakes with pinned memory.

import (
	"errors"
	"fmt"
	"path"

	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

func ExampleWithLeakTracking() {
	engine, err := pintensor.NewEngine(pintensor.WithLeakTracking())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	batch, err := engine.New(tensor.Float32, 64, 784)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, leak := range engine.Leaks() {
		line := leak.Callers[0] // printing all of leak shows who called that
		fmt.Println(leak.Bytes, "bytes,", leak.Shape, "by", path.Base(line.Function))
	}
	if err := engine.Release(batch); err != nil {
		fmt.Println(err)
	}
	fmt.Println(len(engine.Leaks()))
	// Output:
	// 200704 bytes, (64, 784) by pintensor_test.ExampleWithLeakTracking
	// 0
}

// A function that returns pinned tensors to callers who don't know of pinned memory lets them drop these.
func ExampleEngine_AllowDrop() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	scores := func() (*tensor.Dense, error) {
		t, err := engine.New(tensor.Float32, 3)
		if err == nil {
			err = engine.AllowDrop(t)
		}
		return t, err
	}
	t, err := scores()
	fmt.Println(t, err)
	// Output: [0  0  0] <nil>
}

// A test asks whether all copies that it began to issue were issued or given up.
func ExampleEngine_OpenHolds() {
	engine, err := pintensor.NewEngine()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	source, err := engine.New(tensor.Float32, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Release(source)
	hold, err := pintensor.Acquire(source)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine.OpenHolds())
	hold.Done() // no copy after all
	fmt.Println(engine.OpenHolds())
	// Output:
	// 1
	// 0
}

// Poison mode finds code that goes on writing to a tensor that was released.
func ExampleWrittenError() {
	engine, err := pintensor.NewEngine(pintensor.WithPoison(), pintensor.WithLeakTracking())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()

	batch, err := engine.New(tensor.Float32, 64)
	if err != nil {
		fmt.Println(err)
		return
	}
	pixels := batch.Data().([]float32)
	if err := engine.Release(batch); err != nil {
		fmt.Println(err)
	}
	pixels[3] = 1 // too late

	_, err = engine.New(tensor.Float32, 64)
	var late *pintensor.WrittenError
	if errors.As(err, &late) {
		fmt.Println("byte", late.Offset, "of", late.Size)
		fmt.Println("lent by", path.Base(late.Lent[0].Function), "and released by", path.Base(late.Released[0].Function))
	}
	// Output:
	// byte 12 of 256
	// lent by pintensor_test.ExampleWrittenError and released by pintensor_test.ExampleWrittenError
}
