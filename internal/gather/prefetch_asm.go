//go:build amd64 || arm64

package gather

// canPrefetch reports whether there is code for this processor.
const canPrefetch = true

// prefetch prefetches the first reach bytes, at least 1, of each of the n rows, at least 1, of size bytes that are numbered
// indices. It neither waits for them nor reads them: any address will do.
//
//go:noescape
func prefetch(base *byte, size, reach int, indices *int, n int)
