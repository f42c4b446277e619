package devicevm_test

// This file tests tensors of the caller's on the device: shared by inputs and by VMs, and gone.

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/dataloader"
	"github.com/pintensor/pin/devicevm"
	"github.com/pintensor/pin/internal/drivertest"
	"github.com/pintensor/pin/internal/leak"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// product is a graph of ab, for a and b of three numbers.
func product() (g *G.ExprGraph, a, b, y *G.Node) {
	g = G.NewGraph()
	a = G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("a"))
	b = G.NewVector(g, tensor.Float64, G.WithShape(3), G.WithName("b"))
	return g, a, b, G.Must(G.HadamardProd(a, b))
}

// One tensor may be the value of several inputs.
func TestOneTensorForTwoInputs(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	s := newStream(t, dev)
	g, a, b, y := product()
	vm := vmOn(t, g, dev)
	x, err := s.ToDevice(vector(1, 2, 3), true)
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, a, x)
	let(t, vm, b, x)
	wantY(t, vm, y, 1, 4, 9)
	wantY(t, vm, y, 1, 4, 9)
	if err := s.ToDeviceInto(x, vector(4, 5, 6), true); err != nil {
		t.Fatal(err)
	}
	wantY(t, vm, y, 16, 25, 36)
	if err := x.Release(); err != nil {
		t.Error(err)
	}
}

// A run that failed before it began uses nothing: what it would have used may be released, and is not looked at again.
func TestRunWithoutAValueUsesNothing(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	s := newStream(t, dev)
	g, a, b, y := product()
	vm := vmOn(t, g, dev)
	x, err := s.ToDevice(vector(1, 2, 3), true)
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, a, x)
	let(t, vm, b, vector(1, 1, 1))
	wantY(t, vm, y, 1, 2, 3)
	gone, err := s.ToDevice(vector(1, 2, 3), true)
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, b, gone)
	if err := gone.Release(); err != nil {
		t.Fatal(err)
	}
	if err := vm.RunAll(); !errors.Is(err, asynccopy.ErrReleased) {
		t.Errorf("RunAll with a tensor that was released: %v", err)
	}
	if err := x.Release(); err != nil {
		t.Fatal(err)
	}
	compare(t, trace{floats(t, value(t, vm, y))}, trace{{1, 2, 3}}, 0) // looks at nothing else
	let(t, vm, a, vector(2, 2, 2))
	let(t, vm, b, vector(3, 3, 3))
	wantY(t, vm, y, 6, 6, 6)
}

// A run is refused as long as the tensor that it would use has half of a copy, whoever was told first that it failed.
func TestTensorThatNeverArrived(t *testing.T) {
	leak.Check(t)
	const n = 512 << 10 // copied in pieces
	faulty := drivertest.NewFaulty(kinds[kind].driver(t))
	dev := open(t, faulty)
	s := newStream(t, dev)
	g := G.NewGraph()
	a := G.NewVector(g, tensor.Float64, G.WithShape(n), G.WithName("a"))
	y := G.Must(G.Sum(a))
	vm := vmOn(t, g, dev)
	ones := tensor.Ones(tensor.Float64, n)
	x, err := s.Empty(tensor.Float64, n)
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, a, x)
	faulty.FailNth("CopyHtoD", 2, nil)
	if err := s.ToDeviceInto(x, ones, true); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{x.Wait(t.Context()), s.Synchronize(t.Context())} {
		if !errors.Is(err, drivertest.ErrInjected) {
			t.Fatalf("the copy: %v", err)
		}
	}
	for range 2 {
		if err := vm.RunAll(); !errors.Is(err, drivertest.ErrInjected) {
			t.Errorf("RunAll with a tensor whose copy failed: %v", err)
		}
	}
	if err := s.ToDeviceInto(x, ones, true); err != nil {
		t.Fatal(err)
	}
	wantY(t, vm, y, n)
	if err := x.Release(); err != nil {
		t.Error(err)
	}
}

// VMs with streams of their own may run on the same parts of one memory at the same time.
func TestTwoVMsUseOneBatch(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	s := newStream(t, dev)
	packed, err := s.Empty(tensor.Byte, 512)
	if err != nil {
		t.Fatal(err)
	}
	var parts []*asynccopy.Tensor
	for i := range 2 {
		p, err := packed.Part(int64(256*i), tensor.Float64, 3)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	type program struct {
		vm *devicevm.VM
		y  *G.Node
	}
	var programs []program
	for range 3 {
		g, a, b, y := product()
		vm := vmOn(t, g, dev)
		let(t, vm, a, parts[0])
		let(t, vm, b, parts[1])
		programs = append(programs, program{vm, y})
	}
	for round := range 20 {
		k := float64(round)
		if err := errors.Join(s.ToDeviceInto(parts[0], vector(1, 2, 3), true), s.ToDeviceInto(parts[1], vector(k, k, k), true)); err != nil {
			t.Fatal(err)
		}
		var runs sync.WaitGroup
		for _, p := range programs {
			runs.Go(func() {
				if err := p.vm.RunAll(); err != nil {
					t.Error(err)
				}
			})
		}
		runs.Wait()
		for _, p := range programs {
			compare(t, trace{floats(t, p.y.Value())}, trace{{k, 2 * k, 3 * k}}, 0)
		}
	}
	for _, x := range append(parts, packed) {
		if err := x.Release(); err != nil {
			t.Error(err)
		}
	}
}

// VMs that end while a loader reads ahead leave its batches to it.
func TestVMsOfOneBatchEach(t *testing.T) {
	leak.Check(t)
	dev := openDevice(t)
	s := newStream(t, dev)
	fields := []dataloader.Field{{Dtype: tensor.Float64}, {Dtype: tensor.Float64}}
	ds := dataloader.FromFunc(18, fields, func(_ context.Context, i int, row dataloader.Row) error {
		dataloader.Values[float64](row, 0)[0] = float64(i)
		dataloader.Values[float64](row, 1)[0] = float64(i + 1)
		return nil
	})
	l, err := dataloader.New(ds, dataloader.Config{BatchSize: 3, Stream: s, Prefetch: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 {
		for batch, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			g, a, b, y := product()
			vm, err := devicevm.New(g, dev)
			if err != nil {
				t.Fatal(err)
			}
			let(t, vm, a, batch.Device(0))
			let(t, vm, b, batch.Device(1))
			k := float64(3 * batch.Index)
			wantY(t, vm, y, k*(k+1), (k+1)*(k+2), (k+2)*(k+3))
			if err := errors.Join(batch.Use(s), vm.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// What a VM has on a device that is closed went with it.
func TestDeviceClosedBeforeVM(t *testing.T) {
	leak.Check(t)
	dev, err := asynccopy.OpenDriver(kinds[kind].driver(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	g, a, b, y := product()
	vm, err := devicevm.New(g, dev)
	if err != nil {
		t.Fatal(err)
	}
	let(t, vm, a, vector(1, 2, 3))
	let(t, vm, b, vector(1, 2, 3))
	wantY(t, vm, y, 1, 4, 9)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = vm.Value(y)
	for call, err := range map[string]error{"RunAll": vm.RunAll(), "Let": vm.Let(a, vector(1, 1, 1)), "Value": err} {
		if !errors.Is(err, asynccopy.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", call, err)
		}
	}
	if err := errors.Join(vm.Close(), vm.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// A VM that New did not make has no weights.
func TestWeightsFromNoVM(t *testing.T) {
	leak.Check(t)
	g, _, _, _ := product()
	if _, err := devicevm.New(g, openDevice(t), devicevm.WithWeightsFrom(new(devicevm.VM))); err == nil {
		t.Error("no error")
	}
}

func newStream(t *testing.T, dev *asynccopy.Device) *asynccopy.Stream {
	t.Helper()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func vmOn(t *testing.T, g *G.ExprGraph, dev *asynccopy.Device, opts ...devicevm.Option) *devicevm.VM {
	t.Helper()
	vm, err := devicevm.New(g, dev, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vm.Close(); err != nil {
			t.Error(err)
		}
	})
	return vm
}
