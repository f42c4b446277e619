// The command line: what can be set, and what makes no sense.

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// errUsage is in the chain of every error about the command line.
var errUsage = errors.New("run with -h for help")

// config is the command line.
type config struct {
	data, device, dtype, model, solver string
	plot, save, resume                 string
	epochs, batch, workers, interval   int
	learningRate                       float64
	seed                               uint64
}

const maxWorkers = 4096 // the loader's own limit

const usage = `Mnist trains a Gorgonia network on the MNIST digits.

On 2 cores an epoch takes about 1 s with -model mlp, and about 10 s with -model cnn. The same -seed gives
the same weights and losses, to the last bit, on one kind of device, whatever the number of workers, and
also after -save and -resume.

`

// parseFlags reads args, which do not contain the program's name. For -h it writes the help to out and
// returns flag.ErrHelp.
func parseFlags(args []string, out io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("mnist", flag.ContinueOnError)
	flags.StringVar(&c.data, "data", "", "`folder` with the four MNIST files, gzipped or not (default $MNIST_DIR, else a Go module with them is downloaded once)")
	flags.IntVar(&c.epochs, "epochs", 2, "passes over the training images")
	flags.IntVar(&c.batch, "batch", 64, "images a batch")
	flags.StringVar(&c.solver, "solver", "adam", "sgd, momentum or adam")
	flags.Float64Var(&c.learningRate, "lr", 0, "learning rate (default what suits the solver and the batch)")
	flags.IntVar(&c.interval, "log-interval", 50, "`steps` from one look at the loss to the next: a GPU is waited for then")
	flags.IntVar(&c.workers, "workers", 0, "goroutines that prepare batches (0: as the loader finds best)")
	flags.Uint64Var(&c.seed, "seed", 1, "seed of the weights and of the order of the images")
	flags.StringVar(&c.dtype, "dtype", "float32", "float32 or float64")
	flags.StringVar(&c.model, "model", "mlp", "mlp (784-300-100-10), cnn (two convolutions) or convnet (three larger ones, for a GPU)")
	flags.StringVar(&c.device, "device", "auto", "cuda, cpu, or auto: cuda where there is one")
	flags.StringVar(&c.save, "save", "", "`file` for a checkpoint after each epoch")
	flags.StringVar(&c.resume, "resume", "", "`file` with a checkpoint to go on from, up to -epochs")
	flags.StringVar(&c.plot, "plot", "", "`file`.png for the curve of the loss")

	flags.SetOutput(io.Discard) // the caller shows the error, once
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
		return c, err
	case err != nil:
		return c, fmt.Errorf("%w; %w", err, errUsage)
	case flags.NArg() > 0:
		return c, fmt.Errorf("argument %q: only flags are expected; %w", flags.Arg(0), errUsage)
	}
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "lr" })
	if !given {
		c.learningRate = learningRate(c.solver, c.batch)
	}
	return c, c.check()
}

// check refuses values that cannot work, before anything has been read or allocated.
func (c *config) check() error {
	switch {
	case c.epochs < 1:
		return badFlag("epochs", c.epochs, "at least 1")
	case c.batch < 1:
		return badFlag("batch", c.batch, "at least 1")
	case c.solver != "sgd" && c.solver != "momentum" && c.solver != "adam":
		return badFlag("solver", c.solver, "sgd, momentum or adam")
	case c.interval < 1:
		return badFlag("log-interval", c.interval, "at least 1")
	case !(c.learningRate > 0) || math.IsInf(c.learningRate, 0): // NaN is not > 0 either
		return badFlag("lr", c.learningRate, "a number above 0")
	case c.workers < 0 || c.workers > maxWorkers:
		return badFlag("workers", c.workers, fmt.Sprintf("0 to %d", maxWorkers))
	case c.dtype != "float32" && c.dtype != "float64":
		return badFlag("dtype", c.dtype, "float32 or float64")
	case c.model != "mlp" && c.model != "cnn" && c.model != "convnet":
		return badFlag("model", c.model, "mlp, cnn or convnet")
	case c.device != "auto" && c.device != "cuda" && c.device != "cpu":
		return badFlag("device", c.device, "auto, cuda or cpu")
	}
	if c.plot != "" {
		if !strings.EqualFold(filepath.Ext(c.plot), ".png") {
			return badFlag("plot", c.plot, "a name ending in .png")
		}
		if err := checkFile("plot", c.plot); err != nil {
			return err
		}
	}
	if c.save != "" {
		return checkFile("save", c.save)
	}
	return nil
}

// checkFile finds out before minutes of training whether a file can be written afterwards.
func checkFile(name, path string) error {
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return badFlag(name, path, "a file in a folder that exists")
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = writable(filepath.Dir(path))
	case err == nil && !info.Mode().IsRegular():
		return badFlag(name, path, "a file, not a folder or device")
	case err == nil:
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("%w (%w)", badFlag(name, path, "a file that can be written"), err)
	}
	return nil
}

// writable returns an error if no file can be made in dir.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, "*.tmp")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func badFlag(name string, value any, expected string) error {
	return fmt.Errorf("invalid value %q for flag -%s: expected %s; %w", fmt.Sprint(value), name, expected, errUsage)
}
