package asynccopy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"

	"github.com/pintensor/pin/asynccopy"
	"gorgonia.org/tensor"
)

// A trace is written to a file, which https://ui.perfetto.dev opens. Here it is read again instead.
func ExampleWithTrace() {
	var file bytes.Buffer
	trace := asynccopy.NewTrace(&file)
	dev, err := asynccopy.OpenSoft(asynccopy.WithTrace(trace))
	if err != nil {
		log.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	reading := trace.Span("program", "read a file")
	host := tensor.New(tensor.WithBacking([]float32{1, 2, 3, 4}))
	reading.End()
	x, err := s.ToDevice(host, false)
	if err != nil {
		log.Fatal(err)
	}
	if err := x.Release(); err != nil {
		log.Fatal(err)
	}
	if err := dev.Close(); err != nil { // first: it writes what is left
		log.Fatal(err)
	}
	if err := trace.Close(); err != nil {
		log.Fatal(err)
	}

	var lines []struct{ Name, Ph string }
	if err := json.Unmarshal(file.Bytes(), &lines); err != nil {
		log.Fatal(err)
	}
	for _, l := range lines {
		if l.Ph == "X" {
			fmt.Println(l.Name)
		}
	}
	// Output:
	// read a file
	// HtoD
}
