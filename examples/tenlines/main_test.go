package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// Arguments are refused, before anything is trained; there are two lines of output.
func TestRun(t *testing.T) {
	leak.Check(t)
	var out bytes.Buffer
	for _, args := range [][]string{{"-h"}, {"-epochs", "3"}, {""}} {
		err := run(args, &out)
		if want := fmt.Sprintf("argument %q: none is expected; usage: tenlines", args[0]); err == nil || err.Error() != want || status(err) != 2 || out.Len() > 0 {
			t.Errorf("%q: %v with status %d and output %q, want %s", args, err, status(err), &out, want)
		}
	}
	err := run(nil, &out)
	if lines := strings.Split(out.String(), "\n"); err != nil || status(err) != 0 || len(lines) != 3 ||
		!strings.HasPrefix(lines[0], "tapeMachine  loss ") || !strings.HasPrefix(lines[1], "devicevm     loss ") {
		t.Errorf("%v with status %d, output %q", err, status(err), lines)
	}
	if err := run(nil, broken{}); !errors.Is(err, io.ErrClosedPipe) || status(err) != 1 {
		t.Errorf("without a place for the output: %v with status %d", err, status(err))
	}
}

// broken refuses to be written to.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

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
