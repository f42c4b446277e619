// Package src is the kernels' source, for those who compile it.
package src

import "embed"

// Files has the source.
//
//go:embed *.cu *.cuh
var Files embed.FS
