package devicevm

// This file has CUDA devices running programs.

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/gpu"
	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"gorgonia.org/tensor"
)

// mostCode is how many sets of inputs a machine keeps code for: each has captured graphs. A loader's batches come in
// its buffers in turn, of which there are about as many as it prefetches: by itself 8 for each of its workers.
const mostCode = 160

// What a driver says to kernels that are for newer devices, or newer drivers (CUresult in cuda.h).
const (
	codeNoBinary       = 209 // CUDA_ERROR_NO_BINARY_FOR_GPU
	codeUnsupportedPTX = 222 // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
)

// gpuMachine runs programs as captured graphs.
type gpuMachine struct {
	stream  *asynccopy.Stream
	prog    *plan.Program
	machine *gpu.Machine
	codes   []compiled // the one used last at the end
	now     gpu.Memory // where values are in this call

	// The host's memory that copies under way use.
	pending bool
	kept    [][]byte
	down    []download
}

// compiled is code for inputs at certain addresses.
type compiled struct {
	mem      gpu.Memory
	nan, inf bool
	code     *gpu.Code
}

func newGPUMachine(s *asynccopy.Stream, p *plan.Program) (*gpuMachine, error) {
	m, err := gpu.Open(s)
	var failed *driver.Error
	switch {
	case err == nil:
	case errors.As(err, &failed) && (failed.Code == codeNoBinary || failed.Code == codeUnsupportedPTX):
		return nil, fmt.Errorf("%v: want compute capability 7.0 and a driver for CUDA 11.0, or newer: %w: %w", s.Device(), ErrUnsupported, err)
	default:
		return nil, err
	}
	return &gpuMachine{stream: s, prog: p, machine: m}, nil
}

func (m *gpuMachine) do(at *places, up []upload, run *plan.Run, down []download) error {
	if err := m.settle(); err != nil {
		return err
	}
	m.find(at)
	err := m.upload(up)
	if err == nil && run != nil {
		err = m.run(*run)
	}
	if err == nil {
		err = m.download(down)
	}
	// What was issued reads the host's memory, also if something failed after it.
	m.pending = len(up) > 0 || len(down) > 0 || err != nil
	m.down = down
	return errors.Join(err, m.settle())
}

func (m *gpuMachine) beside() bool { return true }

// settle returns when the host's memory is not used any more.
func (m *gpuMachine) settle() error {
	if !m.pending {
		return nil
	}
	over, err := settle(m.stream)
	if over {
		m.pending, m.kept, m.down = false, nil, nil
	}
	return err
}

// upload issues copies to the device.
func (m *gpuMachine) upload(up []upload) error {
	if len(up) == 0 {
		return nil
	}
	return m.stream.Issue("devicevm: inputs", func(dev driver.Device, s driver.Stream) error {
		for _, u := range up {
			data := u.bytes
			if u.value != nil {
				n := int(u.dst.MemSize())
				if data = direct(u.value, n); data == nil {
					data = make([]byte, n)
					if err := host.Copy(data, u.value, u.dst.Dtype()); err != nil {
						return err
					}
				}
			}
			if len(data) == 0 {
				continue
			}
			m.kept = append(m.kept, data)
			if err := dev.CopyHtoD(driver.DevicePtr(u.dst.DevicePtr()), unsafe.Pointer(&data[0]), int64(len(data)), s, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// direct returns the memory of a value if its n bytes are the elements in order, else nil.
func direct(v any, n int) []byte {
	d, ok := v.(*tensor.Dense)
	if !ok || !d.DataOrder().IsContiguous() || d.DataOrder().IsColMajor() || d.RequiresIterator() || len(d.Raw) != n {
		return nil
	}
	return d.Raw
}

func (m *gpuMachine) run(run plan.Run) error {
	c, err := m.compiled(run)
	if err != nil {
		return err
	}
	return m.machine.Run(c, run)
}

// compiled returns code for a run with values where they are now. It looks first at what was used least recently, which
// it is when a loader's buffers take turns.
func (m *gpuMachine) compiled(run plan.Run) (*gpu.Code, error) {
	for i, c := range m.codes {
		if c.nan == run.NaN && c.inf == run.Inf && m.now.Equal(c.mem) {
			m.codes = append(slices.Delete(m.codes, i, i+1), c)
			return c.code, nil
		}
	}
	if len(m.codes) == mostCode {
		if err := m.machine.Synchronize(); err != nil {
			return nil, err
		}
		old := m.codes[0].code
		m.codes = slices.Delete(m.codes, 0, 1)
		if err := m.machine.Free(old); err != nil {
			return nil, err
		}
	}
	mem := m.now.Clone()
	code, err := m.machine.Compile(m.prog, mem, run.NaN, run.Inf)
	if err != nil {
		return nil, err
	}
	m.codes = append(m.codes, compiled{mem, run.NaN, run.Inf, code})
	return code, nil
}

func (m *gpuMachine) download(down []download) error {
	if len(down) == 0 {
		return nil
	}
	return m.stream.Issue("devicevm: results", func(dev driver.Device, s driver.Stream) error {
		for _, d := range down {
			if len(d.dst) == 0 {
				continue
			}
			if err := dev.CopyDtoH(unsafe.Pointer(&d.dst[0]), m.now.At(d.src), int64(len(d.dst)), s, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// find notes where tensors are.
func (m *gpuMachine) find(at *places) {
	list := func(to []driver.DevicePtr, ts []*asynccopy.Tensor) []driver.DevicePtr {
		to = to[:0]
		for _, t := range ts {
			to = append(to, address(t))
		}
		return to
	}
	m.now.Arena = address(at.arena)
	m.now.Inputs = list(m.now.Inputs, at.inputs)
	m.now.Consts = list(m.now.Consts, at.consts)
	m.now.States = list(m.now.States, at.states)
}

func address(t *asynccopy.Tensor) driver.DevicePtr {
	if t == nil {
		return 0
	}
	return driver.DevicePtr(t.DevicePtr())
}

func (m *gpuMachine) close() error {
	m.pending = true
	settled := m.settle()
	errs := []error{settled}
	for _, c := range m.codes {
		errs = append(errs, m.machine.Free(c.code))
	}
	m.codes = nil
	errs = append(errs, m.machine.Close())
	if errors.Is(settled, asynccopy.ErrClosed) {
		return nil // all of it went with the device
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	return nil
}
