//go:build amd64 || arm64

package gather

// asks reports whether there is a way to ask for memory.
const asks = true

// ask asks for the first reach bytes, at least 1, of each of the n rows, at least 1, of size bytes that are numbered
// indices. It neither waits for them nor reads them: any address will do.
//
//go:noescape
func ask(base *byte, size, reach int, indices *int, n int)
