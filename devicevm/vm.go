package devicevm

// This file has the VM: how it is made, runs, and ends.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/graph"
	"github.com/pintensor/pin/devicevm/internal/plan"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

var _ G.VM = (*VM)(nil)

// VM runs a graph on a device. Make one with New.
type VM struct {
	opts    options
	src     *G.ExprGraph
	graph   *graph.Graph
	prog    *plan.Program
	trained map[*graph.Node]bool // by the solver
	session *session
	machine machine
	slots   []*slot // one for each of prog.Inputs
	states  []*state
	at      places
	outputs outputs
	count   uint64 // runs
	iter    int    // steps of the solver
	closed  bool
	up      []upload
	given   []*asynccopy.Tensor // the caller's among a run's inputs
}

// New makes a VM that runs g on dev. It reads g once: nodes that are added later are not run, and make RunAll fail.
// Nodes need no values yet.
//
// New does not need the graph to be differentiated; with gorgonia.Grad before New the VM computes the gradients too.
func New(g *G.ExprGraph, dev *asynccopy.Device, opts ...Option) (*VM, error) {
	vm, err := newVM(g, dev, opts)
	if err != nil {
		return nil, failed("New", err)
	}
	return vm, nil
}

func newVM(g *G.ExprGraph, dev *asynccopy.Device, opts []Option) (*VM, error) {
	vm := &VM{src: g, opts: options{readEvery: 1}}
	if err := errors.Join(vm.configure(dev, opts), graph.Check()); err != nil {
		return nil, err
	}
	var err error
	if vm.graph, err = graph.Read(g); err != nil {
		return nil, err
	}
	if err := vm.build(dev); err != nil {
		return nil, err
	}
	if other := vm.opts.weights; other != nil {
		other.session.mu.Lock()
		defer other.session.mu.Unlock()
		if other.closed {
			return nil, fmt.Errorf("WithWeightsFrom: the VM is %w", ErrClosed)
		}
	}
	if vm.session, err = join(dev, vm.opts.weights); err != nil {
		return nil, err
	}
	if err := vm.equip(); err != nil {
		return nil, errors.Join(err, vm.release())
	}
	return vm, nil
}

// configure applies the options.
func (vm *VM) configure(dev *asynccopy.Device, opts []Option) error {
	switch {
	case vm.src == nil:
		return errors.New("the graph is nil")
	case dev == nil:
		return errors.New("the device is nil")
	}
	for i, o := range opts {
		if o == nil {
			return fmt.Errorf("option %d is nil", i)
		}
		if err := o(&vm.opts); err != nil {
			return err
		}
	}
	switch w := vm.opts.weights; {
	case w == nil:
	case w.session == nil:
		return errors.New("WithWeightsFrom: the VM was not made by New")
	case w.session.stream.Device() != dev:
		return fmt.Errorf("WithWeightsFrom: the VM is on %v, not on %v: want one Device, of one call of asynccopy.Open", w.session.stream.Device(), dev)
	}
	return nil
}

// build makes the program.
func (vm *VM) build(dev *asynccopy.Device) error {
	extra, err := vm.find("WithValues", vm.opts.values)
	if err != nil {
		return err
	}
	params, err := vm.params()
	if err != nil {
		return err
	}
	opts := plan.Options{
		Roots:  plan.Roots(vm.graph, slices.Concat(extra, params)...),
		Eval:   vm.opts.eval,
		NoFuse: vm.opts.nan || vm.opts.inf,
		Bugs:   vm.opts.bugs,
	}
	if dev.IsCUDA() {
		_, total, err := dev.MemInfo()
		if err != nil {
			return err
		}
		opts.Apart = total / 32
	}
	if vm.opts.bugs {
		setTraining(vm.graph, !vm.opts.eval)
	}
	if vm.prog, err = plan.Build(vm.graph, opts); err != nil {
		return err
	}
	if err := vm.addUpdates(params); err != nil {
		return err
	}
	vm.trained = map[*graph.Node]bool{}
	for _, n := range params {
		vm.trained[n] = true
	}
	vm.outputs.init(vm)
	return nil
}

// find returns the nodes of the graph that stand for the user's.
func (vm *VM) find(option string, nodes []*G.Node) ([]*graph.Node, error) {
	var found []*graph.Node
	for _, n := range nodes {
		k := vm.graph.Of(n)
		if k == nil {
			return nil, fmt.Errorf("%s: %s is not in the graph", option, graph.Title(n))
		}
		found = append(found, k)
	}
	return found, nil
}

// setTraining switches the operations of the graph as tapeMachine does.
func setTraining(g *graph.Graph, training bool) {
	for _, n := range g.Nodes {
		if op, ok := n.Src.Op().(G.TrainModeOp); ok {
			_ = op.SetTraining(training) // it never fails
		}
	}
}

// equip gets everything from the device.
func (vm *VM) equip() error {
	var err error
	if vm.machine, err = newMachine(vm.session.stream, vm.prog); err != nil {
		return err
	}
	if err := vm.takeSlots(); err != nil {
		return err
	}
	if vm.at.arena, err = vm.session.stream.Empty(tensor.Byte, int(vm.prog.ArenaSize)); err != nil {
		return fmt.Errorf("%d bytes for intermediate results: %w", vm.prog.ArenaSize, err)
	}
	var up []upload
	for _, data := range vm.prog.Consts {
		t, err := vm.session.stream.Empty(tensor.Byte, len(data))
		if err != nil {
			return fmt.Errorf("%d bytes for a constant: %w", len(data), err)
		}
		vm.at.consts = append(vm.at.consts, t)
		up = append(up, upload{dst: t, bytes: data})
	}
	if up, err = vm.takeStates(up); err != nil {
		return err
	}
	if vm.opts.weights != nil && !vm.borrows() {
		return fmt.Errorf("WithWeightsFrom: no input is one of the other VM's weights %q: give them the same names: %w",
			vm.opts.weights.weightNames(), ErrMismatch)
	}
	if vm.opts.weights != nil {
		if err := vm.unshared(); err != nil {
			return err
		}
	}
	vm.at.inputs = make([]*asynccopy.Tensor, len(vm.slots))
	if err := vm.machine.do(&vm.at, up, nil, nil); err != nil {
		return err
	}
	vm.prog.Consts = nil // the device has them
	return nil
}

// RunAll runs the graph once, whatever ran before: with the values that inputs have now, and with a step of the
// solver if there is one. When it returns, values that the run copies to the host are there. A run that copies none,
// see [WithReadEvery], need not be complete on a GPU: the next may be given its inputs meanwhile, and begin. What fails
// on the device then is an error of a later call; Sync, Value and Close wait.
//
// After an error the values that the run should have given are undefined, and weights may have been changed; the
// VM can go on.
func (vm *VM) RunAll() error {
	if err := vm.enter(); err != nil {
		return failed("RunAll", err)
	}
	defer vm.session.mu.Unlock()
	return failed("RunAll", vm.runAll())
}

// enter locks the session, unless the VM is closed.
func (vm *VM) enter() error {
	if vm == nil || vm.session == nil {
		return errors.New("the VM was not made by New")
	}
	vm.session.mu.Lock()
	if vm.closed {
		vm.session.mu.Unlock()
		return fmt.Errorf("the VM is %w", ErrClosed)
	}
	return nil
}

func (vm *VM) runAll() error {
	if n := len(vm.src.AllNodes()); n != vm.graph.Count {
		return fmt.Errorf("%w: it has %d nodes, had %d", ErrGraphChanged, n, vm.graph.Count)
	}
	run, err := vm.nextRun()
	if err != nil {
		return err
	}
	read := (vm.count+1)%uint64(vm.opts.readEvery) == 0
	err = vm.takeInputs()
	if err == nil {
		err = vm.machine.do(&vm.at, vm.up, run, vm.outputs.downloads(read))
	}
	if err := errors.Join(err, vm.leaveInputs(err != nil)); err != nil {
		return err
	}
	for _, s := range vm.slots {
		s.uploaded()
	}
	vm.count++
	if vm.opts.solver != nil {
		vm.iter++
	}
	if read {
		return vm.outputs.publish()
	}
	return nil
}

// takeInputs finds the tensors that the inputs are in, and what must be copied to them.
func (vm *VM) takeInputs() error {
	for i, s := range vm.slots {
		t, up, err := s.prepare(vm, vm.up)
		if err != nil {
			return err
		}
		vm.at.inputs[i], vm.up = t, up
	}
	return nil
}

// leaveInputs ends the use of the inputs that were taken. The caller's tensors may be released from then on, so nothing
// may look at them. If the run failed the machine may still be using the lists.
func (vm *VM) leaveInputs(failed bool) error {
	vm.given = vm.given[:0]
	for i, s := range vm.slots {
		if t := vm.at.inputs[i]; t != nil && t == s.given && !slices.Contains(vm.given, t) { // once, if several inputs have it
			vm.given = append(vm.given, t)
		}
	}
	err := vm.session.stream.Used(vm.given...) // copies into them wait for no more than the run
	clear(vm.given)
	vm.forgetInputs(failed)
	return err
}

// forgetInputs empties the lists of inputs, or makes new ones.
func (vm *VM) forgetInputs(failed bool) {
	if failed {
		vm.up, vm.at.inputs = nil, make([]*asynccopy.Tensor, len(vm.slots))
		return
	}
	clear(vm.up)
	clear(vm.at.inputs)
	vm.up = vm.up[:0]
}

// nextRun returns what the next run depends on.
func (vm *VM) nextRun() (*plan.Run, error) {
	run := &plan.Run{Seed: vm.opts.seed, Count: vm.count, Iter: vm.iter + 1, Bugs: vm.opts.bugs, NaN: vm.opts.nan, Inf: vm.opts.inf}
	if vm.opts.solver == nil {
		return run, nil
	}
	var err error
	run.Settings, err = graph.SettingsOf(vm.opts.solver)
	return run, err
}

// Reset does nothing: a VM of this package can always run again. It is there because gorgonia.VM has it.
func (vm *VM) Reset() {}

// Close brings trained weights back to the host, as Sync does, and gives everything up. Closing again does nothing.
func (vm *VM) Close() error {
	if err := vm.enter(); err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return failed("Close", err)
	}
	defer vm.session.mu.Unlock()
	return failed("Close", errors.Join(vm.sync(), vm.release()))
}

// release gives up what equip got, or part of it.
func (vm *VM) release() error {
	vm.closed = true
	var errs []error
	if vm.machine != nil { // first: it waits for runs that are under way
		errs = append(errs, vm.machine.close())
	}
	for _, s := range vm.slots {
		errs = append(errs, s.release())
	}
	for _, s := range vm.states {
		errs = append(errs, s.release())
	}
	for _, t := range append(vm.at.consts, vm.at.arena) {
		if t != nil {
			errs = append(errs, t.Release())
		}
	}
	errs = append(errs, vm.session.leave())
	vm.slots, vm.states, vm.at = nil, nil, places{}
	return errors.Join(errs...)
}

// Fallback is a node that the device can't compute: its operation computes itself, on the host.
type Fallback struct {
	Node *G.Node
	Op   string
}

// Fallbacks returns the nodes whose operations compute themselves on the host, in order: those that this package
// does not know, that have a dtype other than float32 and float64, or shapes that are not supported. They are as
// slow as in tapeMachine, plus copies.
func (vm *VM) Fallbacks() []Fallback {
	if vm == nil || vm.prog == nil {
		return nil
	}
	var list []Fallback
	for _, n := range vm.prog.Fallbacks() {
		list = append(list, Fallback{n.Src, n.Src.Op().String()})
	}
	return list
}
