package soft_test

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
)

// A late device shows that a buffer is read before its copy is awaited.
func ExampleNew() {
	d, err := soft.New(soft.Config{Late: true}).Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	s, _ := d.NewStream(0)
	defer d.DestroyStream(s)
	p, _ := d.Alloc(4)
	defer d.Free(p)

	got := make([]byte, 4)
	d.Memset(p, 7, 4, s, 0)
	d.CopyDtoH(unsafe.Pointer(&got[0]), p, 4, s, 0)
	fmt.Println("issued:", got)
	fmt.Println("synchronised:", d.SyncStream(s), got)
	// Output:
	// issued: [0 0 0 0]
	// synchronised: <nil> [7 7 7 7]
}

// An operation that fails when it runs is reported by later calls.
func ExampleConfig_fail() {
	d, err := soft.New(soft.Config{Fail: func(op soft.Op) error {
		return fmt.Errorf("operation %d, %s of %d bytes, was made to fail", op.N, op.Call, op.Bytes)
	}}).Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, _ := d.NewStream(0)
	p, _ := d.Alloc(4)
	fmt.Println(d.Memset(p, 7, 4, s, 0))
	fmt.Println(d.SyncStream(s))
	fmt.Println(d.Close())
	// Output:
	// <nil>
	// soft.Memset: operation 1, Memset of 4 bytes, was made to fail (719)
	// soft.Memset: operation 1, Memset of 4 bytes, was made to fail (719)
}

// A kernel in Go is launched as one for a GPU is, and captured with the copies around it.
func ExampleNew_kernels() {
	d, err := soft.New(soft.Config{}).Open(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	s, _ := d.NewStream(0)
	defer d.DestroyStream(s)
	p, _ := d.Alloc(16)
	defer d.Free(p)
	m, _ := d.LoadModule(driver.Image{Go: map[string]driver.Kernel{
		"double": func(m driver.Memory, grid, block driver.Dim3, args []uint64) error {
			x := driver.Values[float32](m, driver.DevicePtr(args[0]), int(args[1]))
			for i := range x {
				x[i] *= 2
			}
			return nil
		},
	}})
	defer d.UnloadModule(m)
	double, _ := d.Function(m, "double")

	in, out := []float32{1, 2, 3, 4}, make([]float32, 4)
	d.BeginCapture(s)
	d.CopyHtoD(p, unsafe.Pointer(&in[0]), 16, s, 0)
	d.Launch(double, driver.Dim3{X: 1}, driver.Dim3{X: 4}, 0, s, []uint64{uint64(p), 4})
	d.CopyDtoH(unsafe.Pointer(&out[0]), p, 16, s, 0)
	g, err := d.EndCapture(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.DestroyGraph(g)
	for range 2 {
		fmt.Println(d.LaunchGraph(g, s), d.SyncStream(s), out)
		in[0] = 50
	}
	// Output:
	// <nil> <nil> [2 4 6 8]
	// <nil> <nil> [100 4 6 8]
}

// Registering the same bytes twice is an error.
func ExampleHost() {
	b := make([]byte, 1<<20) // too large for the stack, which moves
	host := soft.Host()
	if err := host.Register(unsafe.Pointer(&b[0]), 4096); errors.Is(err, driver.ErrNotSupported) {
		return
	}
	defer host.Unregister(unsafe.Pointer(&b[0]))
	var e *driver.Error
	if errors.As(host.Register(unsafe.Pointer(&b[0]), 4096), &e) {
		fmt.Println(e.Name)
	}
	// Output: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
}
