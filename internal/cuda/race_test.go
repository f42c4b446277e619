//go:build race && linux && (amd64 || arm64)

package cuda

// Under the race detector sync.Pool drops items on purpose, which then count as allocations.
func init() { poolDrops = true }
