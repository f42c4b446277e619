//go:build amd64 || arm64

package spin

// pause tells the core that its thread waits.
func pause()
