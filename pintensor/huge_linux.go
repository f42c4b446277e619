package pintensor

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages. A kernel that has none refuses, which costs only speed.
func adviseHuge(s []byte) { _ = unix.Madvise(s, unix.MADV_HUGEPAGE) }
