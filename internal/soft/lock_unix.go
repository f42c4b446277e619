//go:build linux || darwin

package soft

// This file locks pages with mlock.

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pintensor/pin/internal/driver"
)

const lockName = "mlock"

func lockPages(addr, n uintptr) error {
	err := unix.Mlock(pagesAsBytes(addr, n))
	if err == nil {
		return nil
	}
	code, text := driver.CodeInvalidValue, fmt.Sprintf("%d bytes at %#x: %v", n, addr, err)
	if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EPERM) {
		code, text = driver.CodeOutOfMemory, fmt.Sprintf("%d bytes: %v: %s", n, err, limitText())
	}
	return &driver.Error{Call: "mlock", Code: code, Name: unix.ErrnoName(errnoOf(err)), Text: text}
}

func unlockPages(addr, n uintptr) error {
	err := unix.Munlock(pagesAsBytes(addr, n))
	if err == nil {
		return nil
	}
	return &driver.Error{
		Call: "munlock", Code: driver.CodeInvalidValue, Name: unix.ErrnoName(errnoOf(err)),
		Text: fmt.Sprintf("%d bytes at %#x: %v", n, addr, err),
	}
}

// limitText says what the process may lock and what to do about it.
func limitText() string {
	const how = "raise it with `ulimit -l`, memlock in /etc/security/limits.conf, LimitMEMLOCK= of a systemd unit or `docker run --ulimit memlock=-1`"
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Sprintf("RLIMIT_MEMLOCK can't be read: %v; %s", err, how)
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return "RLIMIT_MEMLOCK is unlimited, so the machine has no memory left to lock"
	}
	return fmt.Sprintf("RLIMIT_MEMLOCK allows this process %d bytes in all; %s", limit.Cur, how)
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	errors.As(err, &errno)
	return errno
}

// pagesAsBytes makes the slice that package unix wants. unsafe.Slice would do but for checkptr: a page
// holds several of Go's objects.
func pagesAsBytes(addr, n uintptr) []byte {
	slice := struct{ addr, len, cap uintptr }{addr, n, n}
	return *(*[]byte)(unsafe.Pointer(&slice))
}
