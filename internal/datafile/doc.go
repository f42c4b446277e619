// Package datafile reads data files at any place, from many goroutines at once: what the data sets in
// package dataloader's sub-packages are made of.
//
// Files of at most [MapLimit] bytes are mapped into memory where the system can, so that a read is a copy;
// larger ones are read with one system call a read. Measured, for a file in the page cache, 2 cores: 3 KiB
// take 0.24 µs from a mapping and 0.65 µs by a call, 64 KiB 2.4 and 3.8 µs, and 1 MiB the same. The pages
// of a mapping count as resident memory of the process, a file's worth of them after an epoch, so a
// limit keeps data sets of any size from filling a container's. They also stop a whole thread when they have
// to be fetched from a disk, which a system call does not.
//
// # Ownership
//
// A [File] that [Open] returned owns its descriptor and mapping until Close. [New] borrows the reader.
//
// # Concurrency
//
// All methods may be called from several goroutines. Close waits for reads that are in progress.
//
// # Errors
//
// A read past the end, of a closed file, or of a mapped file that somebody truncated meanwhile is an error,
// never a fault. None of them names the file: callers do, with [File.Name].
//
// # Platforms
//
// Mappings are made on Linux, macOS and the BSDs; elsewhere all reads are system calls.
package datafile
