package devicevm_test

// This file has saving and resuming.

import (
	"bytes"
	"encoding/gob"
	"errors"
	"slices"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// trainSteps runs steps from first to last, and returns their costs.
func trainSteps(t *testing.T, vm *devicevm.VM, n *network, first, last int) trace {
	t.Helper()
	var tr trace
	for k := first; k < last; k++ {
		n.feed(t, k, vm.Let)
		run(t, vm)
		tr = append(tr, n.cost.floats(t))
	}
	return tr
}

func newTrainer(t *testing.T, dev *asynccopy.Device, solver G.Solver) (*devicevm.VM, *network) {
	t.Helper()
	n := newNetwork(t, normed, tensor.Float32, 8)
	vm, err := devicevm.New(n.graph, dev, devicevm.WithSolver(solver), devicevm.WithSeed(11))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
	})
	return vm, n
}

// Training that was saved, encoded and restored goes on to the bit, dropout and running statistics included.
func TestResume(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	for _, solver := range []func() G.Solver{
		func() G.Solver { return G.NewAdamSolver(G.WithLearnRate(0.01)) },
		func() G.Solver { return G.NewVanillaSolver(G.WithLearnRate(0.1)) },
	} {
		vm, n := newTrainer(t, dev, solver())
		trainSteps(t, vm, n, 0, 3)
		s, err := vm.State()
		if err != nil {
			t.Fatal(err)
		}
		want := trainSteps(t, vm, n, 3, 6)

		var file bytes.Buffer
		if err := gob.NewEncoder(&file).Encode(s); err != nil {
			t.Fatal(err)
		}
		var loaded devicevm.State
		if err := gob.NewDecoder(&file).Decode(&loaded); err != nil {
			t.Fatal(err)
		}
		again, m := newTrainer(t, dev, solver())
		if err := again.Restore(loaded); err != nil {
			t.Fatal(err)
		}
		got := trainSteps(t, again, m, 3, 6)
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Fatalf("step %d after the break: cost %v, without a break %v", i+1, got[i], want[i])
			}
		}
	}
}

// A State can be had before the first run, and one that does not fit changes nothing.
func TestRestoreRefuses(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	adam, n := newTrainer(t, dev, G.NewAdamSolver())
	first, err := adam.State()
	if err != nil {
		t.Fatal(err)
	}
	if first.Runs != 0 || first.Steps != 0 || len(first.Values) == 0 {
		t.Fatalf("state before the first run: %d runs, %d steps, %d values", first.Runs, first.Steps, len(first.Values))
	}
	sgd, _ := newTrainer(t, dev, G.NewVanillaSolver())
	if err := sgd.Restore(first); !errors.Is(err, devicevm.ErrMismatch) {
		t.Errorf("the state of another solver: %v", err)
	}
	bad := first
	bad.Values = slices.Clone(first.Values)
	last := &bad.Values[len(bad.Values)-1]
	last.Data = last.Data[:len(last.Data)-1]
	if err := adam.Restore(bad); !errors.Is(err, devicevm.ErrMismatch) {
		t.Errorf("a truncated value: %v", err)
	}
	bad = first
	bad.Steps = -1
	if err := adam.Restore(bad); !errors.Is(err, devicevm.ErrMismatch) {
		t.Errorf("-1 steps: %v", err)
	}
	want := trainSteps(t, adam, n, 0, 2)
	if err := adam.Restore(first); err != nil {
		t.Fatal(err)
	}
	compare(t, trainSteps(t, adam, n, 0, 2), want, 0)
}
