// Tenlines is a Gorgonia program, twice: tape.go is as such programs are, device.go the same on a device of this
// module. The difference is ten lines:
//
//	diff tape.go device.go
//
// The graph, in network.go, and Gorgonia's solver stay as they are. (With vm.Let in place of gorgonia.Let a batch may also
// be on the device already, where a dataloader.Loader puts it.) The program trains both on two moons, points on two
// half circles, and shows that the losses are the same. It takes no arguments; the exit status is 0, 1 for an error, and 2
// for an argument.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tenlines:", err)
	}
	os.Exit(status(err))
}

// errUsage is in the chain of an error about the command line.
var errUsage = errors.New("usage: tenlines")

// status is the exit status that stands for err.
func status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	return 1
}

// run is main without its globals.
func run(args []string, out io.Writer) error {
	if len(args) > 0 {
		return fmt.Errorf("argument %q: none is expected; %w", args[0], errUsage)
	}
	batches := moons(400, 64)
	for _, c := range []struct {
		name  string
		train func([]batch) ([]float64, error)
	}{{"tapeMachine", trainTape}, {"devicevm", trainDevice}} {
		begin := time.Now()
		losses, err := c.train(batches)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		took := time.Since(begin) / time.Duration(len(losses))
		if _, err := fmt.Fprintf(out, "%-12s loss %.6f -> %.6f, %v a step\n", c.name, losses[0], losses[len(losses)-1], took.Round(time.Microsecond)); err != nil {
			return err
		}
	}
	return nil
}
