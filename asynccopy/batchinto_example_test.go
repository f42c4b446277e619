package asynccopy_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// Many small tensors that are filled again and again: one event tells when all of them have arrived.
func ExampleStream_ToDeviceBatchInto() {
	dev, s := open()
	defer dev.Close()
	var ts []*tensor.Dense
	var xs []*asynccopy.Tensor
	for range 3 {
		t, err := pintensor.New(tensor.Float32, 2)
		if err != nil {
			log.Fatal(err)
		}
		defer pintensor.Release(t)
		x, err := s.Empty(tensor.Float32, 2)
		if err != nil {
			log.Fatal(err)
		}
		ts, xs = append(ts, t), append(xs, x)
	}
	for step := range 2 {
		for i, t := range ts {
			t.Float32s()[0] = float32(step*10 + i)
		}
		if err := s.ToDeviceBatchInto(xs, ts, true); err != nil {
			log.Fatal(err)
		}
		fmt.Println(xs[2].Wait(context.Background()), xs[0].Ready() == xs[2].Ready())
	}
	// Output:
	// <nil> true
	// <nil> true
}

// Memory that is filled while kernels of a stream use what it held before: the copy follows the kernels that were
// launched up to EndUse, and none launched later.
func ExampleTensor_EndUse() {
	dev, copies := open()
	defer dev.Close()
	kernels, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	batch := tensor.New(tensor.WithBacking([]float32{1, 2}))
	x, err := copies.ToDevice(batch, true)
	if err != nil {
		log.Fatal(err)
	}
	if err := x.Use(kernels); err != nil {
		log.Fatal(err)
	}
	launch(kernels.Handle(), x.DevicePtr())
	x.EndUse()
	// ... work on kernels that does not use x
	fmt.Println(copies.ToDeviceInto(x, batch, false))
	// Output: <nil>
}
