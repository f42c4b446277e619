package pintensor

import "golang.org/x/sys/unix"

// physicalMemory returns how many bytes of memory the machine has, 0 if it can't be told.
func physicalMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
