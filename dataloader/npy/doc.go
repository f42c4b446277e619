// Package npy makes data sets of NumPy's array files, .npy and .npz.
//
//	set, err := npy.Open("images.npy", "labels.npy")
//	...
//	defer set.Close()
//	loader, err := dataloader.New(set, dataloader.Config{BatchSize: 64, Shuffle: true})
//
// The first axis of each array is the samples. An array of shape (60000, 28, 28) makes a field of shape (28, 28);
// several arrays, of one length, make a field each. Samples are copied from the file into the batch when
// they are read: nothing is loaded before, and arrays larger than memory stream. Files of up to 512 MiB are
// mapped into memory, as np.load does with mmap_mode="r"; larger ones are read with one system call a sample,
// so that resident memory does not grow with the file. Of a .npz archive, entries that are stored (np.savez)
// are read like files, and compressed ones (np.savez_compressed) are unpacked into memory when it is opened.
//
// Format versions 1, 2 and 3 are read, in either byte order, with elements of these types:
//
//	bool           tensor.Bool
//	int8 ... 64    tensor.Int8, Int16, Int32, Int64
//	uint8 ... 64   tensor.Uint8, Uint16, Uint32, Uint64
//	float32, 64    tensor.Float32, Float64
//	complex64, 128 tensor.Complex64, Complex128
//
// Others are refused: float16 because package tensor has no such type; strings, records and objects, which
// are pickled Python, because they are no tensors. So are arrays of several axes in Fortran's order, whose
// samples are scattered over the whole file. The error says how to save them instead.
//
// The format is described in the documentation of numpy.lib.format.
//
// # Ownership
//
// A [Set] holds its files open until [Set.Close]. Close it after the Loader.
//
// # Concurrency
//
// A Set may be read from any number of goroutines. Close waits for reads that are in progress.
//
// # Errors
//
// A file that is not exactly what its header announces is an [ErrFormat] that names the file, the entry of an
// archive, and what was found and expected. Files are checked when they are opened. Checksums of an
// archive are checked for compressed entries; to check those of stored ones, all would have to be read.
// A read after Close is an error that is [fs.ErrClosed], and one of a file that was truncated meanwhile is
// an error too, not a fault.
//
// No file makes a function panic, or takes more memory than 64 KiB for a header and, for compressed entries,
// twice what they really unpack to, of which [MaxUnpacked] is allowed.
//
// # Platforms
//
// All that Go runs on. Files are mapped on Linux, macOS and the BSDs.
package npy
