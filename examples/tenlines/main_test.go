package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/pintensor/pin/internal/leak"
)

// Both learn, and have the same losses.
func TestSameLosses(t *testing.T) {
	leak.Check(t)
	batches := moons(200, size)
	tape, err := trainTape(batches)
	if err != nil {
		t.Fatal(err)
	}
	device, err := trainDevice(batches)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range tape {
		if math.Abs(device[i]-want) > 1e-6*want {
			t.Fatalf("step %d: loss %v, tapeMachine's %v", i, device[i], want)
		}
	}
	if last := tape[len(tape)-1]; !(last < tape[0]/4) {
		t.Errorf("the loss goes from %v to %v only", tape[0], last)
	}
}

// The difference is as small as the name of the program says: lines of one file that the other does not have,
// without imports, comments, and the handling of errors.
func TestTenLines(t *testing.T) {
	leak.Check(t)
	lines := func(name string) map[string]bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "\nfunc ")
		set := map[string]bool{}
		for line := range strings.SplitSeq(body, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				set[line] = true
			}
		}
		return set
	}
	tape, device := lines("tape.go"), lines("device.go")
	differ := 0
	for line := range device {
		if !tape[line] && !strings.HasPrefix(line, "trainDevice(") {
			differ++
		}
	}
	for line := range tape {
		if !device[line] && !strings.HasPrefix(line, "trainTape(") {
			differ++
		}
	}
	if differ > 10 {
		t.Errorf("%d lines differ, the documentation says ten", differ)
	}
}
