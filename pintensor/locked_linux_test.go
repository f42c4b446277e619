package pintensor

// This file tests what is said of the system's limit, for real.

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/soft"
)

// lowLimit lowers the limit of locked memory for the process until the test ends, and takes its thread the privilege
// to exceed it.
func lowLimit(t *testing.T, bytes uint64) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
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
	t.Cleanup(func() {
		if err := unix.Capset(&header, &before[0]); err != nil {
			t.Error(err)
		}
	})
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < bytes {
		t.Skipf("RLIMIT_MEMLOCK can be %d at most", limit.Max)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: bytes, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
			t.Error(err)
		}
	})
}

func TestBeyondTheSystemsLimit(t *testing.T) {
	e := newRigOver(t, soft.Host())
	lowLimit(t, 96<<10)
	d := must[*tensor.Dense](t)(e.New(tensor.Uint8, 200<<10))
	d.Data().([]byte)[0] = 1
	ok, why := e.Locked()
	if ok || e.IsPinned(d) || why == nil {
		t.Fatalf("locked %v, pinned %v: %v", ok, e.IsPinned(d), why)
	}
	for _, want := range []string{
		"pintensor: 212992 bytes of the engine's memory are not page-locked: mlock: 212992 bytes: cannot allocate memory: ",
		"RLIMIT_MEMLOCK allows this process 98304 bytes in all; raise it with `ulimit -l`, ",
	} {
		if !strings.Contains(why.Error(), want) || !strings.Contains("pintensor: 212992 bytes of the engine's memory are not page-locked: "+e.Stats().LockError, want) {
			t.Errorf("%v\nand Stats %s\nwant %s", why, e.Stats().LockError, want)
		}
	}
	if err := e.Release(d); err != nil {
		t.Fatal(err)
	}
}
