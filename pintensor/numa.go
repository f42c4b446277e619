package pintensor

// This file puts memory where the device is: on the node of a machine of several whose bus it is on.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/pintensor/pin/internal/driver"
)

// # Nodes
//
// An engine has one node, so its cache has memory of that node only. New memory is bound to it before anybody has
// touched it, page-locked, which makes the system give the pages, and unbound again: the pages stay where they are
// as long as they are locked, and neither the heap that gets the memory back nor the list of the process's mappings
// is left with an exception. Pages that the heap had before are moved. The node is preferred, not required: where it
// is full the memory comes from another, since the system ends processes that insist.

// noNode is for memory that may be anywhere.
const noNode = -1

// WithNUMANode has the engine take its memory from the given node of the machine. The default is the node that
// the CUDA device is on, as /sys/bus/pci/devices says; where that is not known, or the machine has one node, memory
// is wherever the system puts it. Copies from another node may be slower.
//
// A node that the machine does not have is an error. If the system refuses to bind memory to one that was asked for,
// New returns its error; Docker's default profile does, unless the container has CAP_SYS_NICE. For the default
// node it is no error, but Stats.NUMAError.
func WithNUMANode(node int) Option {
	return func(e *Engine) error {
		nodes := e.topology.nodes()
		for _, n := range nodes {
			if n == node {
				e.topology.asked, e.topology.node = true, node
				return nil
			}
		}
		return fmt.Errorf("pintensor: WithNUMANode: node is %d, want one of the machine's: %v", node, nodes)
	}
}

// topology is what an engine knows of the machine's nodes.
type topology struct {
	sys   string // where sysfs is
	asked bool   // WithNUMANode chose the node
	node  int    // noNode: none
	bind  func(mem unsafe.Pointer, n uintptr, node int) error
}

func thisMachine() topology { return topology{sys: "/sys", node: noNode, bind: bindMemory} }

// nodes returns the nodes that have memory. It is one on a system that does not tell.
func (t *topology) nodes() []int {
	for _, file := range []string{"has_memory", "online"} {
		text, err := os.ReadFile(filepath.Join(t.sys, "devices/system/node", file))
		if err != nil {
			continue
		}
		if nodes, err := parseNodes(strings.TrimSpace(string(text))); err == nil && len(nodes) > 0 {
			return nodes
		}
	}
	return []int{0}
}

// parseNodes reads a list as the kernel writes it: "0-1,4".
func parseNodes(list string) (nodes []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, ferr := strconv.ParseUint(first, 10, 16)
		to, terr := strconv.ParseUint(last, 10, 16)
		if err := errors.Join(ferr, terr); err != nil {
			return nil, err
		}
		for n := from; n <= to; n++ {
			nodes = append(nodes, int(n))
		}
	}
	return nodes, nil
}

// deviceNode returns the node of the host's device, noNode if that is not known.
func (t *topology) deviceNode(host driver.Host) (int, error) {
	located, ok := host.(driver.Located)
	if !ok {
		return noNode, nil
	}
	id, err := located.PCIBusID()
	if errors.Is(err, driver.ErrNotSupported) {
		return noNode, nil
	}
	if err != nil {
		return noNode, err
	}
	text, err := os.ReadFile(filepath.Join(t.sys, "bus/pci/devices", filepath.Base(id), "numa_node"))
	if errors.Is(err, os.ErrNotExist) {
		return noNode, nil
	}
	if err != nil {
		return noNode, err
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 { // the kernel writes -1 if the firmware does not say
		return noNode, err
	}
	return node, nil
}

// choose decides where the engine's memory is to be.
func (t *topology) choose(host driver.Host) error {
	if len(t.nodes()) < 2 {
		t.node = noNode
		return nil
	}
	if t.asked {
		return nil
	}
	node, err := t.deviceNode(host)
	t.node = node
	return err
}

// bindNew binds new memory to the engine's node, if it has one, until unbind.
func (e *Engine) bindNew(mem unsafe.Pointer, n uintptr) error {
	t := &e.topology
	if t.node == noNode {
		return nil
	}
	err := t.bind(mem, n, t.node)
	if err != nil && !t.asked {
		e.numaErr.Store(&refusal{err})
		return nil
	}
	return err
}

// unbind undoes it, when the memory is page-locked. That it fails costs nothing: the memory that the heap gets
// back then is on this node too.
func (e *Engine) unbind(mem unsafe.Pointer, n uintptr) {
	if e.topology.node != noNode {
		_ = e.topology.bind(mem, n, noNode)
	}
}
