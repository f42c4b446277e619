// Package idx reads the IDX file format, in which MNIST and its relatives are published.
//
// A file is a magic number (two zero bytes, the type of an element, the number of dimensions), the
// dimensions as big-endian 32-bit numbers, and the elements, the last dimension varying fastest.
// See "the IDX file format" at http://yann.lecun.com/exdb/mnist. A file may be compressed with gzip; its contents
// tell, not its name.
//
//	set, err := idx.Open("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
//
// [Open] makes a data set of files of one length, for a [dataloader.Loader], with elements of all types of the
// format: uint8, int8, int16, int32, float32 and float64. Samples are read from the files when they are
// needed, and compressed files are unpacked into memory first. [Read] and [ReadFile] return the elements of one
// file, which must be unsigned bytes, all that MNIST uses.
//
// # Ownership
//
// An [Array] is ordinary memory that belongs to the caller. A [Set] holds its files open until [Set.Close].
//
// # Concurrency
//
// The functions keep no state, and may be called from any goroutine, as may the methods of a Set. Close waits
// for reads that are in progress.
//
// # Errors
//
// A file that is not exactly what its header announces is an error that is [ErrFormat], and says what
// was expected and what was found. [ReadFile] and [Open] add the name of the file. No input makes a function panic,
// or allocate more than twice what the input really holds. A read of a Set after Close is an error that is
// [io/fs.ErrClosed], and one of a file that was truncated meanwhile is an error too, not a fault.
//
// # Platforms
//
// All that Go runs on. Files of up to 512 MiB are mapped into memory on Linux, macOS and the BSDs.
package idx
