//go:build !amd64 && !arm64

package gather

const canPrefetch = false

func prefetch(base *byte, size, reach int, indices *int, n int) {}
