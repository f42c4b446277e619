// Package idx reads the IDX file format, in which MNIST and its relatives are published.
//
// A file is a magic number (two zero bytes, the type of an element, the number of dimensions), the
// dimensions as big-endian 32-bit numbers, and the elements, the last dimension varying fastest.
// See "the IDX file format" at http://yann.lecun.com/exdb/mnist. Only elements of one unsigned byte
// are read, which is all that MNIST uses. A file may be compressed with gzip; its contents tell, not
// its name.
//
// # Ownership
//
// An [Array] is ordinary memory that belongs to the caller.
//
// # Concurrency
//
// The functions keep no state, and may be called from any goroutine.
//
// # Errors
//
// A file that is not exactly what its header announces is an error that is [ErrFormat], and says what
// was expected and what was found. [ReadFile] adds the name of the file. No input makes a function panic,
// or allocate more than twice what the input really holds.
//
// # Platforms
//
// Plain Go, everywhere.
package idx
