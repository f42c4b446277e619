package devicevm

// This file has what a device does for a VM, and the software device doing it.

import (
	"context"
	"errors"
	"fmt"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/cpu"
	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	G "gorgonia.org/gorgonia"
)

// upload is a host value that goes to the device.
type upload struct {
	dst   *asynccopy.Tensor
	value G.Value
	bytes []byte // in place of value
}

// download is a value of the program that goes to the host.
type download struct {
	dst []byte
	src plan.Value
}

// places are the tensors that a program's values are in.
type places struct {
	arena                  *asynccopy.Tensor
	inputs, consts, states []*asynccopy.Tensor
}

// machine runs a program on a device. Its calls come one at a time.
type machine interface {
	// do copies the uploads to the device, runs the program if there is a run, and copies the downloads back,
	// in this order. When it returns the host's memory is no longer used; but if it returns an error, what it was given
	// may be, also the lists, until the next call.
	do(at *places, up []upload, run *plan.Run, down []download) error

	// beside reports whether a run goes on beside the host when do has returned, so that the next values may be on
	// their way meanwhile.
	beside() bool

	close() error
}

// newMachine returns a machine for the program: the software device runs no kernels of CUDA.
func newMachine(s *asynccopy.Stream, p *plan.Program) (machine, error) {
	gpu, err := newGPUMachine(s, p)
	if err == nil {
		return gpu, nil
	}
	if s.Device().IsCUDA() || !errors.Is(err, driver.ErrNotSupported) {
		return nil, err
	}
	soft, err := newSoftMachine(s, p)
	if err != nil {
		return nil, err // not a machine that is a nil *softMachine
	}
	return soft, nil
}

// softMachine runs programs as a kernel of the software device: in the stream's order, in the device's memory.
type softMachine struct {
	stream   *asynccopy.Stream
	launcher driver.Launcher
	module   driver.Module
	function driver.Function
	mem      cpu.Memory
	runner   *cpu.Runner

	// What the launch under way does, and how it ended. It happens between Launch and the end of settle.
	pending bool
	at      places
	up      []upload
	run     *plan.Run
	down    []download
	err     error
}

func newSoftMachine(s *asynccopy.Stream, p *plan.Program) (*softMachine, error) {
	m := &softMachine{stream: s}
	var err error
	if m.runner, err = cpu.Compile(p, &m.mem); err != nil {
		return nil, err
	}
	launcher, ok := s.Device().Driver().(driver.Launcher)
	if !ok {
		return nil, fmt.Errorf("a device without kernels: %w", ErrUnsupported)
	}
	m.launcher = launcher
	const name = "program"
	if m.module, err = launcher.LoadModule(driver.Image{Go: map[string]driver.Kernel{name: m.kernel}}); err != nil {
		return nil, err
	}
	if m.function, err = launcher.Function(m.module, name); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *softMachine) do(at *places, up []upload, run *plan.Run, down []download) error {
	if err := m.settle(); err != nil {
		return err
	}
	m.at, m.up, m.run, m.down, m.err = *at, up, run, down, nil
	one := driver.Dim3{X: 1}
	err := m.stream.Issue("devicevm", func(_ driver.Device, s driver.Stream) error {
		return m.launcher.Launch(m.function, one, one, 0, s, nil)
	})
	if err != nil {
		return err
	}
	m.pending = true
	if err := m.settle(); err != nil {
		return err
	}
	return m.err
}

// beside is false: the host computes.
func (m *softMachine) beside() bool { return false }

// settle returns when no launch is under way.
func (m *softMachine) settle() error {
	if !m.pending {
		return nil
	}
	over, err := settle(m.stream)
	if over {
		m.pending = false
		m.at, m.up, m.run, m.down = places{}, nil, nil, nil // they may be large
	}
	return err
}

// settle waits for the work on a stream, and returns whether it is over. What fails here is the waiting, which says
// nothing of the work: unless the device is lost, that goes on, and uses the host's memory. So waiting is tried again,
// at the latest by the next call.
func settle(s *asynccopy.Stream) (over bool, err error) {
	err = s.Synchronize(context.Background())
	over = err == nil || lost(err)
	if !over {
		again := s.Synchronize(context.Background())
		over = again == nil || lost(again)
		err = errors.Join(err, again)
	}
	return over, err
}

// lost reports whether an error means that the device runs nothing any more.
func lost(err error) bool {
	var failure *driver.Error
	return errors.Is(err, asynccopy.ErrClosed) || errors.As(err, &failure) && failure.Sticky()
}

// kernel is the launch. An error of the program is the VM's: it must not spoil the device.
func (m *softMachine) kernel(mem driver.Memory, _, _ driver.Dim3, _ []uint64) error {
	m.err = m.launch(mem)
	return nil
}

func (m *softMachine) launch(mem driver.Memory) error {
	for _, u := range m.up {
		dst := memory(mem, u.dst)
		if u.value == nil {
			copy(dst, u.bytes)
			continue
		}
		if err := host.Copy(dst, u.value, u.dst.Dtype()); err != nil {
			return err
		}
	}
	if m.run == nil && len(m.down) == 0 {
		return nil
	}
	m.mem.Arena = memory(mem, m.at.arena)
	m.mem.Inputs = memories(m.mem.Inputs, mem, m.at.inputs)
	m.mem.Consts = memories(m.mem.Consts, mem, m.at.consts)
	m.mem.States = memories(m.mem.States, mem, m.at.states)
	if m.run != nil {
		if err := m.runner.Run(*m.run); err != nil {
			return err
		}
	}
	for _, d := range m.down {
		copy(d.dst, m.mem.Bytes(d.src))
	}
	return nil
}

// memory returns the memory of a tensor.
func memory(mem driver.Memory, t *asynccopy.Tensor) []byte {
	if t == nil || t.MemSize() == 0 {
		return nil
	}
	return mem.Bytes(driver.DevicePtr(t.DevicePtr()), int64(t.MemSize()))
}

// memories is memory of each, in the slice given if there is one.
func memories(to [][]byte, mem driver.Memory, ts []*asynccopy.Tensor) [][]byte {
	to = to[:0]
	for _, t := range ts {
		to = append(to, memory(mem, t))
	}
	return to
}

func (m *softMachine) close() error {
	if err := m.settle(); err != nil && !lost(err) {
		return err
	}
	if err := m.launcher.UnloadModule(m.module); !errors.Is(err, driver.ErrClosed) {
		return err
	}
	return nil // it went with the device
}
