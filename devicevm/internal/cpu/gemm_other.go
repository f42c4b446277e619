//go:build !amd64

package cpu

// vectors: there are no kernels for this processor.
const vectors = false

func kernel32(k int, a, b, c *float32, ldc int) { panic("cpu: no kernel") }

func kernel64(k int, a, b, c *float64, ldc int) { panic("cpu: no kernel") }
