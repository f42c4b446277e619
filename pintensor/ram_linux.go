package pintensor

import "golang.org/x/sys/unix"

// physicalMemory returns how many bytes of memory the machine has, 0 if it can't be told.
func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}
