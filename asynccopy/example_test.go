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

// A device has streams, a stream takes copies, and a Download gives the result.
func Example() {
	ctx := context.Background()
	dev, err := asynccopy.OpenSoft() // or OpenDefault, for the GPU if there is one
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	host := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 2, 3, 4}))
	x, err := s.ToDevice(host, true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	down, err := s.ToHost(x, true) // on the same stream, so after the copy
	if err != nil {
		log.Fatal(err)
	}
	back, err := down.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(back.Data())
	fmt.Println(pintensor.Release(back))
	// Output:
	// [1 2 3 4]
	// <nil>
}

// The steady state of a training loop: one pinned buffer on the host, one on the device, filled again and
// again.
func ExampleStream_ToDeviceInto() {
	dev, s := open()
	defer dev.Close()
	batch, err := pintensor.New(tensor.Float32, 64, 10)
	if err != nil {
		log.Fatal(err)
	}
	defer pintensor.Release(batch)
	x, err := s.Empty(tensor.Float32, 64, 10)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	for step := range 3 {
		if err := x.Wait(context.Background()); err != nil { // the last copy has read batch
			log.Fatal(err)
		}
		batch.Memset(float32(step))
		if err := s.ToDeviceInto(x, batch, true); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(x.Wait(context.Background()), dev.Stats().ToDevice.Copies, "copies")
	// Output: <nil> 3 copies
}

func ExampleStream_ToHostInto() {
	dev, s := open()
	defer dev.Close()
	x, err := s.ToDevice(tensor.New(tensor.WithBacking([]int32{1, 2, 3})), true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	dst := tensor.New(tensor.Of(tensor.Int32), tensor.WithShape(3))
	arrived, err := s.ToHostInto(dst, x, true)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(arrived.Wait(context.Background()), dst.Data())
	// Output: <nil> [1 2 3]
}

func ExampleStream_ToHost() {
	dev, s := open()
	defer dev.Close()
	x, err := s.ToDevice(tensor.New(tensor.FromScalar(42.0)), true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	down, err := s.ToHost(x, false)
	if err != nil {
		log.Fatal(err)
	}
	back, err := down.Wait(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer pintensor.Release(back)
	fmt.Println(back.ScalarValue())
	// Output: 42
}

func ExampleStream_ToDevice() {
	dev, s := open()
	defer dev.Close()
	host := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 2, 3, 4}))
	x, err := s.ToDevice(host, true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	fmt.Println(x.Wait(context.Background()), x)
	// Output: <nil> float32(2, 2) on device 0 (software device 0)
}

// Many small tensors take one copy, whatever memory they are in.
func ExampleStream_ToDeviceBatch() {
	dev, s := open()
	defer dev.Close()
	weights := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1, 2, 3, 4}))
	weights.T()
	bias := tensor.New(tensor.WithBacking([]float64{5, 6}))
	xs, err := s.ToDeviceBatch([]*tensor.Dense{weights, bias, tensor.New(tensor.FromScalar(int64(7)))}, true)
	if err != nil {
		log.Fatal(err)
	}
	for _, x := range xs {
		down, err := s.ToHost(x, false)
		if err != nil {
			log.Fatal(err)
		}
		host, err := down.Wait(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(x, host.Data())
		pintensor.Release(host)
		x.Release()
	}
	// Output:
	// float32(2, 2) on device 0 (software device 0) [1 3 2 4]
	// float64(2) on device 0 (software device 0) [5 6]
	// int64() on device 0 (software device 0) 7
}

// One stream waits for another, on the device.
func ExampleStream_Wait() {
	dev, copies := open()
	defer dev.Close()
	compute, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	x, err := copies.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2})), true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	arrived, err := copies.Record()
	if err != nil {
		log.Fatal(err)
	}
	if err := compute.Wait(arrived); err != nil {
		log.Fatal(err)
	}
	fmt.Println(compute.Synchronize(context.Background()))
	done, err := arrived.Done()
	fmt.Println(done, err)
	// Output:
	// <nil>
	// true <nil>
}

// A batch of images and labels, packed on the host, takes one copy.
func ExampleTensor_Part() {
	dev, s := open()
	defer dev.Close()
	packed, err := pintensor.New(tensor.Uint8, 256+4*2) // images of 2 x 3 float32, then labels of 2 int32
	if err != nil {
		log.Fatal(err)
	}
	defer pintensor.Release(packed)
	copy(packed.Raw[256:], []byte{7, 0, 0, 0, 9, 0, 0, 0})

	batch, err := s.ToDevice(packed, true)
	if err != nil {
		log.Fatal(err)
	}
	images, err := batch.Part(0, tensor.Float32, 2, 3)
	if err != nil {
		log.Fatal(err)
	}
	labels, err := batch.Part(256, tensor.Int32, 2)
	if err != nil {
		log.Fatal(err)
	}
	batch.Release() // the memory goes back with the last part
	defer images.Release()
	defer labels.Release()

	down, err := s.ToHost(labels, false)
	if err != nil {
		log.Fatal(err)
	}
	host, err := down.Wait(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer pintensor.Release(host)
	fmt.Println(images)
	fmt.Println(labels, host.Data())
	// Output:
	// float32(2, 3) on device 0 (software device 0)
	// int32(2) on device 0 (software device 0) [7 9]
}

// A tensor goes from one device to another, here from one software device to a second.
func ExampleStream_Copy() {
	one, a := open()
	defer one.Close()
	two, b := open()
	defer two.Close()
	x, err := a.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2, 3})), true)
	if err != nil {
		log.Fatal(err)
	}
	y, err := b.Copy(x, true) // on two's stream, after a's copy
	if err != nil {
		log.Fatal(err)
	}
	x.Release()
	defer y.Release()
	fmt.Println(y.Device() == two, y.Wait(context.Background()))
	// Output: true <nil>
}

// Two tensors on one device: what PyTorch writes as y.copy_(x).
func ExampleStream_CopyInto() {
	dev, s := open()
	defer dev.Close()
	x, err := s.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2, 3})), true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	y, err := s.Empty(tensor.Float32, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer y.Release()
	fmt.Println(s.CopyInto(y, x, false), dev.Stats().OnDevice.Bytes, "bytes")
	// Output: <nil> 12 bytes
}

// A program that needs one stream has it already.
func ExampleDevice_Default() {
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.Default()
	if err != nil {
		log.Fatal(err)
	}
	x, err := s.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2})), true)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	fmt.Println(dev.Synchronize(context.Background()))
	done, err := x.Ready().Done()
	fmt.Println(done, err)
	// Output:
	// <nil>
	// true <nil>
}

// Work of other code is told of before it is issued.
func ExampleTensor_Use() {
	dev, s := open()
	defer dev.Close()
	kernels, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	x, err := s.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2})), true)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.Use(kernels))
	launch(kernels.Handle(), x.DevicePtr()) // follows the copy
	fmt.Println(x.Release())                // the memory is freed behind the kernel
	// Output:
	// <nil>
	// <nil>
}

// launch stands for a kernel launch.
func launch(stream, x uintptr) {}

func ExampleOpenDefault() {
	dev, err := asynccopy.OpenDefault()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	_, total, err := dev.MemInfo()
	fmt.Println(total > 0, err)
	// Output: true <nil>
}

func ExampleOpenSoft() {
	dev, err := asynccopy.OpenSoft(asynccopy.WithMemory(64 << 20))
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	_, total, err := dev.MemInfo()
	fmt.Println(dev, total, err)
	// Output: device 0 (software device 0) 67108864 <nil>
}

// A limit, so that several programs can share a GPU.
func ExampleWithDeviceLimit() {
	dev, err := asynccopy.OpenSoft(asynccopy.WithDeviceLimit(1 << 20))
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.Empty(tensor.Float32, 1024, 1024)
	fmt.Println(errors.Is(err, asynccopy.ErrOutOfMemory), err)
	// Output: true asynccopy: 4194304 bytes are wanted, 0 are lent of the 1048576 that WithDeviceLimit allows: out of memory
}

// Copies of ordinary memory by four goroutines each, on a machine that has other work.
func ExampleWithStaging() {
	dev, err := asynccopy.OpenSoft(asynccopy.WithStaging(4, 1<<20))
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.Default()
	if err != nil {
		log.Fatal(err)
	}
	x, err := s.ToDevice(tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(1024, 1024)), false)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	fmt.Println(dev.Stats().ToDevice.Staged, "copy staged")
	// Output: 1 copy staged
}

// Memory that was released is kept for the next tensor; Trim gives it to other programs.
func ExampleDevice_Trim() {
	dev, s := open()
	defer dev.Close()
	x, err := s.ToDevice(tensor.New(tensor.WithBacking([]float32{1, 2})), false)
	if err != nil {
		log.Fatal(err)
	}
	x.Release()
	fmt.Println(dev.Stats().Cached, "bytes cached")
	err = dev.Trim()
	fmt.Println(dev.Stats().Cached, "bytes cached", err)
	// Output:
	// 512 bytes cached
	// 0 bytes cached <nil>
}

// open returns a device and a stream.
func open() (*asynccopy.Device, *asynccopy.Stream) {
	dev, err := asynccopy.OpenSoft()
	if err != nil {
		log.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	return dev, s
}
