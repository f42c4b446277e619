package kernels

// The kernels on a GPU.

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"unsafe"

	"github.com/pintensor/pin/internal/cuda"
	"github.com/pintensor/pin/internal/driver"
)

// device is the first GPU, with the kernels loaded.
type device struct {
	driver.Device
	module driver.Module
	stream driver.Stream
}

var openDevice = sync.OnceValues(func() (*device, error) {
	drv, err := cuda.Load()
	if err != nil {
		return nil, err
	}
	dev, err := drv.Open(0)
	if err != nil {
		return nil, err
	}
	d := &device{Device: dev}
	if d.module, err = dev.LoadModule(driver.Image{CUDA: []byte(PTX)}); err != nil {
		return nil, err
	}
	d.stream, err = dev.NewStream(0)
	return d, err
})

// TestMain opens the device before the tests, none of which then leaves anything open, and closes it after them.
func TestMain(m *testing.M) {
	d, err := openDevice()
	code := m.Run()
	if err == nil {
		for _, err := range []error{d.DestroyStream(d.stream), d.UnloadModule(d.module), d.Close()} {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// gpu reports whether there is a GPU. Under REQUIRE_GPU there must be.
func gpu(t testing.TB) bool {
	t.Helper()
	_, err := openDevice()
	if err != nil && os.Getenv("REQUIRE_GPU") != "" {
		t.Fatal(err)
	}
	return err == nil
}

// launch runs a kernel on the GPU, on copies of the memory that it gets the addresses of, and of what operands and
// parameters in that memory refer to.
func launch(t testing.TB, name string, grid [3]uint32, args []argument) {
	t.Helper()
	d, err := openDevice()
	check(t, err)
	copies := map[unsafe.Pointer]driver.DevicePtr{}
	var back []func()
	upload := func(a argument) uint64 {
		if a.data == nil {
			return a.bits
		}
		if p, ok := copies[a.data]; ok {
			return uint64(p)
		}
		p, err := d.Alloc(int64(a.size))
		check(t, err)
		check(t, d.CopyHtoD(p, a.data, int64(a.size), d.stream, 0))
		copies[a.data] = p
		back = append(back, func() { check(t, d.CopyDtoH(a.data, p, int64(a.size), d.stream, 0)) })
		return uint64(p)
	}
	refer := func(at uint64) uint64 {
		if at == 0 {
			return 0
		}
		return upload(addressed[at])
	}
	values := make([]uint64, len(args))
	for i, a := range args {
		if a.words != nil {
			values = append(values[:i], a.words(func(at *uint64) { *at = refer(*at) })...)
			break
		}
		values[i] = upload(a)
	}
	f, err := d.Function(d.module, name)
	check(t, err)
	check(t, d.Launch(f, driver.Dim3{X: grid[0], Y: grid[1], Z: grid[2]}, driver.Dim3{X: Threads}, 0, d.stream, values))
	for _, b := range back {
		b()
	}
	check(t, d.SyncStream(d.stream))
	for _, p := range copies {
		check(t, d.Free(p))
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
