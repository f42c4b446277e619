//go:build unix && !aix && !solaris

package datafile

// This file maps files with mmap.

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the first n bytes of f, to be read.
func mapFile(f *os.File, n int) ([]byte, error) {
	raw, err := f.SyscallConn() // unlike Fd, it leaves f in non-blocking mode
	if err != nil {
		return nil, err
	}
	var mem []byte
	var failed error
	err = raw.Control(func(fd uintptr) {
		mem, failed = unix.Mmap(int(fd), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	})
	if err == nil {
		err = failed
	}
	return mem, err
}

func unmap(mem []byte) error { return unix.Munmap(mem) }
