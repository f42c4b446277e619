// Package pintensor gives tensors of gorgonia.org/tensor page-locked ("pinned") memory.
package pintensor
