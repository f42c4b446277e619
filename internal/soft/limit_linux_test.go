package soft

// This file tests the system's limit for real.

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

// TestLimit lowers the limit of the process, and takes its thread the privilege to exceed it.
func TestLimit(t *testing.T) {
	leak.Check(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var before [2]unix.CapUserData
	if err := unix.Capget(&header, &before[0]); err != nil {
		t.Fatal(err)
	}
	without := before
	without[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	if err := unix.Capset(&header, &without[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&header, &before[0]); err != nil {
			t.Error(err)
		}
	}()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	const low = 64 << 10
	if limit.Cur < low {
		t.Skipf("RLIMIT_MEMLOCK is %d already", limit.Cur)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: low, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
			t.Error(err)
		}
	}()
	h := &host{name: lockName, lock: lockPages, unlock: unlockPages, page: uintptr(unix.Getpagesize())}
	b := onHeap(1 << 20)
	for range 2 { // what was locked before the limit does not stay so
		err := h.Register(hostPointer(b), int64(len(b)))
		if !errors.Is(err, driver.ErrOutOfMemory) {
			t.Fatalf("Register of more than the limit: %v, want ErrOutOfMemory", err)
		}
		for _, want := range []string{"mlock", "ENOMEM", "RLIMIT_MEMLOCK allows this process 65536 bytes", "ulimit -l"} {
			var e *driver.Error
			if errors.As(err, &e); !strings.Contains(e.Name+" "+err.Error(), want) {
				t.Errorf("%v (%s), want %q in it", err, e.Name, want)
			}
		}
	}
	if err := h.Register(hostPointer(b), low/2); err != nil {
		t.Fatalf("Register within the limit: %v", err)
	}
	if err := h.Unregister(hostPointer(b)); err != nil {
		t.Error(err)
	}
}
