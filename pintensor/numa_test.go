package pintensor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/leak"
)

// locatedHost is a host whose device is on a bus.
type locatedHost struct {
	fakeHost
	id  string
	err error
}

func (h *locatedHost) PCIBusID() (string, error) { return h.id, h.err }

// fakeMachine is a tree as in /sys, and a note of what was bound.
type fakeMachine struct {
	sys   string
	bound map[uintptr]int   // nodes by address, of what is bound now
	sizes map[uintptr]int64 // of all that ever was
	fail  error
}

func newMachine(t *testing.T, files map[string]string) *fakeMachine {
	t.Helper()
	m := &fakeMachine{sys: t.TempDir(), bound: make(map[uintptr]int), sizes: make(map[uintptr]int64)}
	for name, text := range files {
		name = filepath.Join(m.sys, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// on is the option that has an engine run on the machine.
func (m *fakeMachine) on() Option {
	return func(e *Engine) error {
		e.topology.sys, e.topology.bind = m.sys, m.bind
		return nil
	}
}

func (m *fakeMachine) bind(mem unsafe.Pointer, n uintptr, node int) error {
	if m.fail != nil && node != noNode {
		return m.fail
	}
	if uintptr(mem)%pageSize != 0 || n%pageSize != 0 {
		return errors.New("not whole pages")
	}
	if node == noNode {
		delete(m.bound, uintptr(mem))
		return nil
	}
	m.bound[uintptr(mem)], m.sizes[uintptr(mem)] = node, int64(n)
	return nil
}

const (
	hasMemory = "devices/system/node/has_memory"
	online    = "devices/system/node/online"
	busNode   = "bus/pci/devices/0000:3b:00.0/numa_node"
)

func TestNUMANode(t *testing.T) {
	two := map[string]string{online: "0-2\n", hasMemory: "0,2\n", busNode: "2\n"}
	for name, c := range map[string]struct {
		files map[string]string
		host  driver.Host
		opts  []Option
		want  int
		noted string
	}{
		"the device's":              {files: two, host: &locatedHost{id: "0000:3b:00.0"}, want: 2},
		"another":                   {files: two, host: &locatedHost{id: "0000:3b:00.0"}, opts: []Option{WithNUMANode(0)}, want: 0},
		"without a device":          {files: two, host: &fakeHost{}, want: noNode},
		"asked for without one":     {files: two, host: &fakeHost{}, opts: []Option{WithNUMANode(2)}, want: 2},
		"a device not in the tree":  {files: two, host: &locatedHost{id: "0000:99:00.0"}, want: noNode},
		"the firmware doesn't say":  {files: map[string]string{online: "0-1", busNode: "-1\n"}, host: &locatedHost{id: "0000:3b:00.0"}, want: noNode},
		"an old driver":             {files: two, host: &locatedHost{err: driver.ErrNotSupported}, want: noNode},
		"the driver fails":          {files: two, host: &locatedHost{err: errors.New("broken")}, want: noNode, noted: "the device's NUMA node: broken"},
		"nonsense in the tree":      {files: map[string]string{online: "0-1", busNode: "x"}, host: &locatedHost{id: "0000:3b:00.0"}, want: noNode, noted: "the device's NUMA node: "},
		"one node":                  {files: map[string]string{online: "0\n", busNode: "0\n"}, host: &locatedHost{id: "0000:3b:00.0"}, want: noNode},
		"one node, asked for":       {files: map[string]string{online: "0\n"}, host: &fakeHost{}, opts: []Option{WithNUMANode(0)}, want: noNode},
		"a system that has no tree": {host: &locatedHost{id: "0000:3b:00.0"}, want: noNode},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.files)
			e := newRigOver(t, hostNamed(c.host), append([]Option{m.on()}, c.opts...)...)
			e.Engine.host = c.host // the rig's wrappers don't say where the device is
			if got := e.Stats().NUMANode; got != noNode {
				t.Errorf("node %d before anything was asked for", got)
			}
			all := []*tensor.Dense{must[*tensor.Dense](t)(e.New(tensor.Uint8, 100)), must[*tensor.Dense](t)(e.New(tensor.Uint8, 5<<20))}
			s := e.Stats()
			if s.NUMANode != c.want || !strings.HasPrefix(s.NUMAError, c.noted) || c.noted == "" && s.NUMAError != "" {
				t.Errorf("node %d, error %q; want %d, %q", s.NUMANode, s.NUMAError, c.want, c.noted)
			}
			if c.want == noNode && len(m.sizes) > 0 {
				t.Error("memory was bound")
			}
			for _, d := range all {
				_, size := classOf(max(int64(len(d.Raw)), minBlock))
				if c.want != noNode && m.sizes[base(d)] != size {
					t.Errorf("%d bytes bound for a block of %d", m.sizes[base(d)], size)
				}
			}
			if len(m.bound) != 0 {
				t.Error("memory that is page-locked is still bound")
			}
			releaseAll(t, e.Engine, all)
		})
	}
}

// hostNamed gives the fakes their name, which makes page-locking compulsory.
func hostNamed(h driver.Host) driver.Host {
	switch h := h.(type) {
	case *fakeHost:
		h.name = "cuda"
	case *locatedHost:
		h.name = "cuda"
	}
	return h
}

func TestNUMANodesThatThereAreNot(t *testing.T) {
	leak.Check(t)
	m := newMachine(t, map[string]string{online: "0-1,5"})
	for _, node := range []int{-1, 2, 6} {
		if _, err := NewEngine(m.on(), WithNUMANode(node)); err == nil || !strings.HasSuffix(err.Error(), "want one of the machine's: [0 1 5]") {
			t.Errorf("node %d: %v, want an error that names the nodes", node, err)
		}
	}
	if _, err := NewEngine(m.on(), WithNUMANode(5)); err != nil {
		t.Errorf("node 5: %v", err)
	}
}

func TestParseNodes(t *testing.T) {
	leak.Check(t)
	for list, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0,2": {0, 2}, "0-1,4,6-7": {0, 1, 4, 6, 7}, "": nil, "a": nil, "1-": nil, "-1": nil, "0-99999": nil, "3-1": nil,
	} {
		if got, err := parseNodes(list); !slices.Equal(got, want) || (err == nil) == (want == nil) && list != "3-1" {
			t.Errorf("%q: %v, %v; want %v", list, got, err, want)
		}
	}
}

// Who asks for a node is told that it can't be had. Otherwise it is only noted.
func TestMemoryThatCannotBeBound(t *testing.T) {
	m := newMachine(t, map[string]string{online: "0-1", busNode: "1"})
	m.fail = os.NewSyscallError("mbind", os.ErrPermission)
	asked := newRig(t, m.on(), WithNUMANode(1))
	if _, err := asked.New(tensor.Uint8, 5); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v, want mbind's error", err)
	}
	if n := asked.owned.Load(); n != 0 || asked.host.Calls("Register") != 0 {
		t.Errorf("%d bytes, and %d registrations", n, asked.host.Calls("Register"))
	}
	m.fail = nil
	releaseAll(t, asked.Engine, small(t, asked.Engine, 1, 5))

	m.fail = os.NewSyscallError("mbind", os.ErrPermission)
	e := newRig(t, m.on())
	e.Engine.host = &locatedHost{fakeHost: fakeHost{name: "cuda"}, id: "0000:3b:00.0"}
	all := small(t, e.Engine, 1, 5)
	if s := e.Stats(); !strings.Contains(s.NUMAError, "mbind") || s.NUMANode != 1 {
		t.Errorf("node %d, error %q", s.NUMANode, s.NUMAError)
	}
	releaseAll(t, e.Engine, all)
}

func TestWhatTheDriverRefusesIsNotLeftBound(t *testing.T) {
	m := newMachine(t, map[string]string{online: "0-1"})
	e := newRig(t, m.on(), WithNUMANode(1))
	e.host.FailNth("Register", 1, nil)
	if _, err := e.New(tensor.Uint8, 5); err == nil {
		t.Fatal("no error")
	}
	if len(m.sizes) != 1 || len(m.bound) != 0 {
		t.Errorf("%d bound, of %d", len(m.bound), len(m.sizes))
	}
}
