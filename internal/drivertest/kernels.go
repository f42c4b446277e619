package drivertest

// This file has kernels that every device can run.

import (
	_ "embed" // of the PTX
	"math"
	"time"

	"github.com/pintensor/pin/internal/driver"
)

//go:embed kernels.ptx
var ptx []byte

// Image is an image with two kernels, the same on every device.
//
//	axpy(y, x driver.DevicePtr, a float32, n uint32)  y[i] = a*x[i] + y[i] for i < n, of float32; a thread for each i
//	spin(ns uint64)                                   takes ns nanoseconds, and does nothing
var Image = driver.Image{CUDA: ptx, Go: map[string]driver.Kernel{"axpy": axpy, "spin": spin}}

// axpy is as exact as the fused multiply-add of a GPU: the product of two float32 has no error as a float64.
// The sum is rounded twice, which differs for values that the tests don't use.
func axpy(m driver.Memory, grid, block driver.Dim3, args []uint64) error {
	n := int(min(int64(uint32(args[3])), grid.Size()*block.Size()))
	y, x := driver.Values[float32](m, driver.DevicePtr(args[0]), n), driver.Values[float32](m, driver.DevicePtr(args[1]), n)
	a := float64(math.Float32frombits(uint32(args[2])))
	for i := range y {
		y[i] = float32(a*float64(x[i]) + float64(y[i]))
	}
	return nil
}

func spin(_ driver.Memory, _, _ driver.Dim3, args []uint64) error {
	time.Sleep(time.Duration(args[0]))
	return nil
}
