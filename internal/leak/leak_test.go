package leak

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStacksSeeANewGoroutine(t *testing.T) {
	before := stacks()
	stop, started := make(chan struct{}), make(chan struct{})
	go func() { close(started); <-stop }()
	<-started
	if left := added(before, stacks()); len(left) != 1 {
		t.Fatalf("found %d new goroutines, want 1", len(left))
	}
	close(stop)
}

func TestOpenFilesSeesANewFile(t *testing.T) {
	before := openFiles()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not list open files")
	}
	if after := openFiles(); after != before+1 {
		t.Fatalf("openFiles() = %d after opening one, was %d", after, before)
	}
}

func TestOpenFilesLeavesDevicesAndPipesOut(t *testing.T) {
	before := openFiles()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if after := openFiles(); after != before {
		t.Fatalf("openFiles() = %d after opening a device and a pipe, was %d", after, before)
	}
}

func TestCheckPassesWhenNothingIsLeft(t *testing.T) {
	Check(t)
	done := make(chan struct{})
	go close(done)
	<-done
}
