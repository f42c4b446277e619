// Mnist trains a Gorgonia network on the MNIST digits. The batches come out of package dataloader, written
// by several goroutines straight into pinned memory while the network computes.
//
//	go run github.com/pintensor/pin/examples/mnist                     # 784-300-100-10, 2 epochs, 97 %
//	go run github.com/pintensor/pin/examples/mnist -model cnn -plot loss.png
//	go run github.com/pintensor/pin/examples/mnist -model convnet -batch 256 -epochs 3   # for a GPU: 98.8 %
//	go run github.com/pintensor/pin/examples/mnist -h                  # all flags
//
// Read run.go first: it is what a program of your own would look like. dataset.go is how samples get
// into a batch, network.go how a batch gets into Gorgonia.
//
// The exit status is 0, 1 for an error, 2 for a bad flag, and 130 after Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once

	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mnist:", err)
	}
	os.Exit(status(err))
}

// status is the exit status that stands for err.
func status(err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, context.Canceled):
		return 130 // what shells show for a program that Ctrl-C ended
	}
	return 1
}
