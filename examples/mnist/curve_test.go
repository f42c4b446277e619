package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	G "gorgonia.org/gorgonia"
)

var (
	curveDir   = flag.String("curve", "", "write the losses of training on MNIST, with tapeMachine and with devicevm, to files in this folder")
	curveSteps = flag.Int("curve-steps", 938, "steps that -curve trains for; an epoch is 938")
)

// trainer is something that trains on a batch of the host's, and returns the loss.
type trainer struct {
	name string
	step func(x, y G.Value) (float64, error)
}

// tape trains a model with Gorgonia's own machine and solver.
func tape(t *testing.T, m model[float32], batch int, solver G.Solver, seed uint64) trainer {
	b := &builder[float32]{graph: G.NewGraph(), random: rand.New(rand.NewPCG(seed, 0))}
	var loss G.Value
	x, y := input[float32](b.graph, "x", batch, m.input), input[float32](b.graph, "y", batch, []int{classes})
	logits := m.forward(b, x)
	if b.err != nil {
		t.Fatal(b.err)
	}
	cost, err := crossEntropy(logits, y)
	if err != nil {
		t.Fatal(err)
	}
	G.Read(cost, &loss)
	if _, err := G.Grad(cost, b.nodes...); err != nil {
		t.Fatal(err)
	}
	vm := G.NewTapeMachine(b.graph, G.BindDualValues(b.nodes...))
	t.Cleanup(func() { vm.Close() })
	return trainer{"tapeMachine", func(xv, yv G.Value) (float64, error) {
		defer vm.Reset()
		if err := errors.Join(G.Let(x, xv), G.Let(y, yv), vm.RunAll()); err != nil {
			return 0, err
		}
		return float64(loss.Data().(float32)), solver.Step(G.NodesToValueGrads(b.nodes))
	}}
}

// TestCurves trains the same network with tapeMachine and with devicevm on each device that there is, on the same
// batches: the losses are the same. With -curve that is done on MNIST, for longer, and the losses are written down.
func TestCurves(t *testing.T) {
	check(t)
	data, steps := bars(640, 1), 20
	if *curveDir != "" {
		dir, err := locate(context.Background(), ownFiles)
		if err != nil {
			t.Fatal(err)
		}
		if data, _, err = load(dir); err != nil {
			t.Fatal(err)
		}
		steps = *curveSteps
	}
	for _, name := range []string{"mlp", "cnn"} {
		t.Run(name, func(t *testing.T) {
			cfg := config{solver: "momentum", learningRate: learningRate("momentum", 64), batch: 64, seed: 1}
			if *curveDir == "" {
				cfg.batch = 16
			}
			m := modelNamed[float32](name)
			trainers := []trainer{tape(t, m, cfg.batch, cfg.newSolver(), cfg.seed)}
			devices := []string{"cpu"}
			if dev, err := asynccopy.Open(0); err == nil {
				devices = append(devices, "cuda")
				if err := dev.Close(); err != nil {
					t.Fatal(err)
				}
			}
			for _, device := range devices {
				cfg.device = device
				net, dev, err := openNetwork(m, cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := errors.Join(net.close(), dev.Close()); err != nil {
						t.Error(err)
					}
				})
				trainers = append(trainers, trainer{device, func(x, y G.Value) (float64, error) { return step(net, x, y) }})
			}
			rows := train(t, trainers, cfg, m, data, steps)
			if *curveDir != "" {
				write(t, filepath.Join(*curveDir, "curve-"+name+".csv"), trainers, rows)
			}
			// Later the rounding of sums of float32, which is another in each, makes them different.
			for k := range min(20, len(rows)) {
				for i := 1; i < len(trainers); i++ {
					if d := math.Abs(rows[k][i] - rows[k][0]); !(d <= 1e-3*max(rows[k][0], 1)) {
						t.Errorf("step %d: loss %v on %s, %v with tapeMachine", k+1, rows[k][i], trainers[i].name, rows[k][0])
					}
				}
			}
		})
	}
}

// train gives the trainers the same batches, and returns the losses of each step.
func train(t *testing.T, trainers []trainer, cfg config, m model[float32], data images, steps int) [][]float64 {
	loader, err := newLoader[float32](cfg, data, m.input, nil, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	var rows [][]float64
	for {
		for b, err := range loader.Batches(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			row := make([]float64, len(trainers))
			for i, tr := range trainers {
				if row[i], err = tr.step(b.Host(fieldImage), b.Host(fieldLabel)); err != nil {
					t.Fatalf("%s: %v", tr.name, err)
				}
			}
			if rows = append(rows, row); len(rows) == steps {
				return rows
			}
		}
	}
}

func write(t *testing.T, path string, trainers []trainer, rows [][]float64) {
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := csv.NewWriter(f)
	line := []string{"step"}
	for _, tr := range trainers {
		line = append(line, tr.name)
	}
	err = w.Write(line)
	for k, row := range rows {
		line = append(line[:0], fmt.Sprint(k+1))
		for _, loss := range row {
			line = append(line, strconv.FormatFloat(loss, 'g', 6, 64))
		}
		err = errors.Join(err, w.Write(line))
	}
	w.Flush()
	if err := errors.Join(err, w.Error(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
