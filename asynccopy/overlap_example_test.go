package asynccopy_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/pintensor"
	"gorgonia.org/tensor"
)

// Copies in, kernels and copies out on three streams, with two batches on the device at a time: while a kernel
// works on one, the next is copied in and the results of the last are copied out. The tensors make the streams wait
// for each other where they must.
func ExampleTensor_Used() {
	dev, in := open()
	defer dev.Close()
	compute, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	out, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	batch, err := pintensor.New(tensor.Float32, 64, 10)
	if err != nil {
		log.Fatal(err)
	}
	result, err := pintensor.New(tensor.Float32, 64)
	if err != nil {
		log.Fatal(err)
	}
	var x, y [2]*asynccopy.Tensor
	for i := range 2 { // each on the stream that writes it first
		if x[i], err = in.Empty(tensor.Float32, 64, 10); err != nil {
			log.Fatal(err)
		}
		if y[i], err = compute.Empty(tensor.Float32, 64); err != nil {
			log.Fatal(err)
		}
	}
	for step := range 10 {
		x, y := x[step%2], y[step%2]
		if err := in.ToDeviceInto(x, batch, true); err != nil {
			log.Fatal(err)
		}
		if err := errors.Join(x.Use(compute), y.Use(compute)); err != nil {
			log.Fatal(err)
		}
		launch(compute.Handle(), x.DevicePtr()) // reads x, writes y
		if err := errors.Join(x.Used(compute), y.Used(compute)); err != nil {
			log.Fatal(err)
		}
		if _, err := out.ToHostInto(result, y, true); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(out.Synchronize(context.Background()))
	fmt.Println(dev.Stats().ToDevice.Copies, "copies in,", dev.Stats().ToHost.Copies, "out")
	for i := range 2 {
		if err := errors.Join(x[i].Release(), y[i].Release()); err != nil {
			log.Fatal(err)
		}
	}
	if err := errors.Join(pintensor.Release(batch), pintensor.Release(result)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// <nil>
	// 10 copies in, 10 out
}
