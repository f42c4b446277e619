package leak

import (
	"os"
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
	if before == 0 {
		t.Skip("this system does not list open files")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if after := openFiles(); after != before+1 {
		t.Fatalf("openFiles() = %d after opening one, was %d", after, before)
	}
}

func TestCheckPassesWhenNothingIsLeft(t *testing.T) {
	Check(t)
	done := make(chan struct{})
	go close(done)
	<-done
}
