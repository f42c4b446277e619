package cpu

// This file has what products of matrices use of the processor.

import "golang.org/x/sys/cpu"

// vectors reports whether kernel32 and kernel64 can run. So it has been since Haswell (2013) and Zen (2017).
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasOSXSAVE

// kernel32 adds the product of a packed panel of A, 6 rows, and one of B, 16 columns, both k deep, to 6 rows of 16
// elements of C, which are ldc elements apart.
//
//go:noescape
func kernel32(k int, a, b, c *float32, ldc int)

// kernel64 is kernel32 for 8 columns of float64.
//
//go:noescape
func kernel64(k int, a, b, c *float64, ldc int)
