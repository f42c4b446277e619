package gpu

// This file has machines: the kernels on a device, and how code runs.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/pintensor/pin/asynccopy"
	"github.com/pintensor/pin/devicevm/internal/cublas"
	"github.com/pintensor/pin/devicevm/internal/host"
	"github.com/pintensor/pin/devicevm/internal/kernels"
	"github.com/pintensor/pin/devicevm/internal/plan"
	"github.com/pintensor/pin/internal/driver"
	"golang.org/x/sync/errgroup"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// What cuBLAS is given to work in, for each of the products that may run at once: two, those of a layer's two gradients.
// With less memory than NVIDIA recommends for Hopper it takes slower kernels for small products.
const (
	workspaces     = 2
	workspaceBytes = 32 << 20
)

// Machine runs code on one stream. Its calls come one at a time.
type Machine struct {
	stream *asynccopy.Stream
	dev    driver.Device

	modules   []driver.Module // of kernels that code has used so far
	functions map[string]driver.Function

	graphless bool          // the driver can't capture
	chained   bool          // it captures chains only
	captures  driver.Stream // 0 until there is something to capture

	blas      *cublas.Handle // nil without cuBLAS
	workspace *asynccopy.Tensor

	scratch []*asynccopy.Tensor // for kernels to work in, the largest last

	// live is what differs from run to run, on the device; run and settings are what it has.
	live     *asynccopy.Tensor
	run      kernels.Run
	settings kernels.Settings
	unsure   bool // a run failed: how far it got isn't known

	kept [][]byte // that work may still use, which could not be waited for
}

// Open makes a machine for the device of a stream, and loads one kernel, to know that the device can. The error is
// driver.ErrNotSupported for a device that runs none.
func Open(s *asynccopy.Stream) (*Machine, error) {
	m := &Machine{stream: s, dev: s.Device().Driver(), functions: map[string]driver.Function{}}
	err := m.load([]string{"count"}) // the smallest
	if err == nil {
		m.live, err = m.stream.Empty(tensor.Byte, liveBytes)
	}
	if err == nil {
		err = m.issue("devicevm: settings", func(s driver.Stream) error {
			return m.dev.Memset(driver.DevicePtr(m.live.DevicePtr()), 0, liveBytes, s, 0)
		})
	}
	if err == nil {
		err = m.openBLAS()
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// load loads those of the kernels that are not there yet: each as a module of its own, all at once, since the driver takes
// up to half a second to compile one that it has not seen.
func (m *Machine) load(names []string) error {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return m.functions[name] != 0 })
	modules := make([]driver.Module, len(names))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range names {
		group.Go(func() error {
			text, err := kernels.Module(name)
			if err == nil {
				modules[i], err = m.dev.LoadModule(driver.Image{CUDA: []byte(text)})
			}
			return err
		})
	}
	err := group.Wait()
	for i, module := range modules {
		if module == 0 {
			continue
		}
		m.modules = append(m.modules, module)
		if err == nil {
			m.functions[names[i]], err = m.dev.Function(module, names[i])
		}
	}
	if err != nil {
		return fmt.Errorf("loading the kernels: %w", err)
	}
	return nil
}

// loadBLAS is a variable for the tests.
var loadBLAS = cublas.Load

// openBLAS gets a handle of cuBLAS, if there is one: without, products are the kernels'. cuBLAS talks to CUDA itself,
// so that it would take the addresses of a device that only passes for CUDA's for what they are not.
func (m *Machine) openBLAS() error {
	if !m.stream.Device().IsCUDA() {
		return nil
	}
	lib, err := loadBLAS()
	if err != nil {
		return nil
	}
	if m.workspace, err = m.stream.Empty(tensor.Byte, workspaces*workspaceBytes); err != nil {
		return fmt.Errorf("%d bytes for cuBLAS to work in: %w", workspaces*workspaceBytes, err)
	}
	return m.dev.Within(func() (err error) {
		m.blas, err = lib.New(driver.Stream(m.stream.Handle()), driver.DevicePtr(m.workspace.DevicePtr()), workspaceBytes)
		return err
	})
}

// Close releases the kernels. The work of the machine's code must have completed, and the code be freed.
func (m *Machine) Close() error {
	var errs []error
	if m.blas != nil {
		errs = append(errs, m.dev.Within(m.blas.Close))
	}
	for _, t := range append(m.scratch, m.workspace, m.live) {
		if t != nil {
			errs = append(errs, t.Release())
		}
	}
	if m.captures != 0 {
		errs = append(errs, m.dev.DestroyStream(m.captures))
	}
	for _, module := range m.modules {
		errs = append(errs, m.dev.UnloadModule(module))
	}
	return errors.Join(errs...)
}

// Compile makes code of a program whose values lie in mem. With nan or inf its runs end, with plan.ErrNaN or
// plan.ErrInf, at the first step whose result has one, before the solver.
func (m *Machine) Compile(p *plan.Program, mem Memory, nan, inf bool) (*Code, error) {
	c, err := compile(p, mem, m.blas != nil, nan, inf)
	if err != nil {
		return nil, err
	}
	if err := m.load(slices.Sorted(maps.Keys(c.names))); err != nil {
		return nil, err
	}
	for name := range c.names {
		c.names[name] = m.functions[name]
	}
	if err := m.place(c); err != nil {
		return nil, errors.Join(err, m.Free(c))
	}
	return c, nil
}

// place gets the code its memory on the device.
func (m *Machine) place(c *Code) error {
	var err error
	if c.tableTensor, err = m.stream.Empty(tensor.Byte, len(c.table)); err != nil {
		return fmt.Errorf("%d bytes for what kernels count and find: %w", len(c.table), err)
	}
	c.tableMem = driver.DevicePtr(c.tableTensor.DevicePtr())
	if c.scratch > 0 {
		if c.scratchMem, err = m.reserve(c.scratch); err != nil {
			return err
		}
	}
	return errors.Join(m.upload(c), m.finish(c.table))
}

// reserve returns scratch memory of n bytes. It is for all code, which runs one after the other; what is too small for the
// next stays, since graphs have its address.
func (m *Machine) reserve(n int64) (driver.DevicePtr, error) {
	if k := len(m.scratch); k == 0 || int64(m.scratch[k-1].MemSize()) < n {
		t, err := m.stream.Empty(tensor.Byte, int(n))
		if err != nil {
			return 0, fmt.Errorf("%d bytes for the kernels to work in: %w", n, err)
		}
		m.scratch = append(m.scratch, t)
	}
	return driver.DevicePtr(m.scratch[len(m.scratch)-1].DevicePtr()), nil
}

// upload copies the code's table to the device.
func (m *Machine) upload(c *Code) error {
	return m.issue("devicevm: upload", func(s driver.Stream) error {
		return m.dev.CopyHtoD(c.tableMem, unsafe.Pointer(&c.table[0]), int64(len(c.table)), s, 0)
	})
}

// Free releases the code's graphs and memory, once its work has completed.
func (m *Machine) Free(c *Code) error {
	var errs []error
	for i := range c.segments {
		if g := c.segments[i].graph; g != 0 {
			errs = append(errs, m.dev.DestroyGraph(g))
			c.segments[i].graph = 0
		}
	}
	if c.tableTensor != nil {
		errs = append(errs, c.tableTensor.Release())
		c.tableTensor = nil
	}
	return errors.Join(errs...)
}

// Synchronize waits for the work that was issued.
func (m *Machine) Synchronize() error { return m.stream.Synchronize(context.Background()) }

// finish waits for work that uses memory of the host's. If that fails the work may go on, so the memory is kept.
func (m *Machine) finish(memory ...[]byte) error {
	err := m.Synchronize()
	if err != nil {
		m.kept = append(m.kept, memory...)
	}
	return err
}

func (m *Machine) issue(name string, call func(s driver.Stream) error) error {
	return m.stream.Issue(name, func(_ driver.Device, s driver.Stream) error { return call(s) })
}

// Run issues a run of the code. It waits only for operations of the host's, and where it looks for what is not finite.
func (m *Machine) Run(c *Code, run plan.Run) error {
	if err := m.tell(c, run); err != nil {
		return err
	}
	if c.unsure {
		if err := m.upload(c); err != nil {
			return err
		}
	}
	m.unsure, c.unsure = true, true
	for i := range c.segments {
		seg := &c.segments[i]
		if len(seg.work) > 0 {
			if err := m.issue("devicevm: step", func(s driver.Stream) error { return m.launch(c, seg, s) }); err != nil {
				return err
			}
		}
		if seg.after != nil {
			if err := seg.after(m, c); err != nil {
				return err
			}
		}
	}
	m.unsure, c.unsure = false, false
	if c.prog.Layers > 0 {
		m.run.Count++
	}
	if c.solves {
		ticked(&m.settings)
	}
	return nil
}

// tell copies what differs from what the device has.
func (m *Machine) tell(c *Code, run plan.Run) error {
	numbers, settings := m.run, m.settings
	if c.prog.Layers > 0 {
		numbers = kernels.Run{Count: run.Count, Seed: run.Seed}
	}
	if c.solves {
		settings = settingsOf(run)
		settings.Power1, settings.Power2 = m.settings.Power1, m.settings.Power2
		if settings.Steps != m.settings.Steps || settings.Beta1 != m.settings.Beta1 || settings.Beta2 != m.settings.Beta2 {
			powers(&settings)
		}
	}
	if numbers == m.run && settings == m.settings && !m.unsure {
		return nil
	}
	live := driver.DevicePtr(m.live.DevicePtr())
	m.run, m.settings, m.unsure = numbers, settings, true
	// Small copies from ordinary memory have been taken when the call returns.
	err := m.issue("devicevm: settings", func(s driver.Stream) error {
		if err := m.dev.CopyHtoD(live+runAt, unsafe.Pointer(&m.run), int64(unsafe.Sizeof(m.run)), s, 0); err != nil {
			return err
		}
		return m.dev.CopyHtoD(live+settingsAt, unsafe.Pointer(&m.settings), int64(unsafe.Sizeof(m.settings)), s, 0)
	})
	m.unsure = err != nil
	return err
}

// report looks at what was found that is not finite.
func (m *Machine) report(c *Code) error {
	found := make([]uint32, c.found)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&found[0])), 4*len(found))
	err := m.issue("devicevm: watch", func(s driver.Stream) error {
		return m.dev.CopyDtoH(unsafe.Pointer(&memory[0]), c.tableMem, int64(len(memory)), s, 0)
	})
	if err := errors.Join(err, m.finish(memory)); err != nil {
		return err
	}
	i := slices.IndexFunc(found, func(at uint32) bool { return at != math.MaxUint32 })
	if i < 0 {
		return nil
	}
	s := &c.prog.Steps[i/2]
	kind, at := plan.ErrNaN, found[i]
	if other := found[i|1]; i&1 == 1 || other < at {
		kind, at = plan.ErrInf, other
	}
	return &plan.StepError{Node: s.Node, Err: fmt.Errorf("%w at element %d of %d", kind, at, s.Out.N)}
}

// host adds an operation that only computes itself.
func (b *builder) host(s *plan.Step, op plan.Host) {
	b.stop(func(m *Machine, c *Code) error {
		if err := m.compute(c, s, op); err != nil {
			return &plan.StepError{Node: s.Node, Err: err}
		}
		return nil
	})
}

// compute runs an operation on the host, on copies of its operands.
func (m *Machine) compute(c *Code, s *plan.Step, op plan.Host) error {
	operands := make([]G.Value, len(s.In))
	var memory [][]byte
	err := m.issue("devicevm: operands", func(stream driver.Stream) error {
		for i, v := range s.In {
			operands[i] = host.New(v.Dtype, v.Shape)
			if v.N == 0 {
				continue
			}
			to := host.Bytes(operands[i])
			memory = append(memory, to)
			if err := m.dev.CopyDtoH(unsafe.Pointer(&to[0]), c.mem.At(v), v.Bytes(), stream, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, m.finish(memory...)); err != nil { // also what failed has issued some
		return err
	}
	value, err := host.Do(op.Op, operands)
	if err != nil || s.Out.N == 0 {
		return err
	}
	result := make([]byte, s.Out.Bytes())
	if err := host.Copy(result, value, s.Out.Dtype); err != nil {
		return err
	}
	err = m.issue("devicevm: result", func(stream driver.Stream) error {
		return m.dev.CopyHtoD(c.mem.At(s.Out), unsafe.Pointer(&result[0]), int64(len(result)), stream, 0)
	})
	return errors.Join(err, m.finish(result))
}
