package soft

// This file has captures and graphs: operations that were listed instead of queued, and are queued later.

import (
	"slices"

	"github.com/pintensor/pin/internal/driver"
)

// capture is what a stream that is captured was given. A node is the number of an operation, from 1.
type capture struct {
	operations []operation
	depends    [][]int       // of each operation, on earlier ones
	next       []driver.Node // what the next operation depends on
	spoilt     bool
}

// add captures an operation.
func (c *capture) add(op operation) {
	on := make([]int, len(c.next))
	for i, n := range c.next {
		on[i] = int(n) - 1
	}
	c.operations, c.depends = append(c.operations, op), append(c.depends, on)
	c.next = []driver.Node{driver.Node(len(c.operations))}
}

// inOrder returns the operations in the order in which a graph queues them: as they were captured, or on a late device
// with those first that were captured last, as far as their dependencies let them.
func (c *capture) inOrder(late bool) []operation {
	if !late {
		return c.operations
	}
	var list []operation
	for _, i := range Order(c.depends, func(n int) int { return n - 1 }) {
		list = append(list, c.operations[i])
	}
	return list
}

// graph is a finished capture.
type graph struct {
	operations []operation
	last       mark // its latest launch
}

// refuse is the error of a call that s can't take while it is captured, nil if it is not. It spoils the
// capture, as on CUDA.
func (s *stream) refuse(method string) *driver.Error {
	if s.capture == nil {
		return nil
	}
	s.capture.spoilt = true
	return failure(method, driver.CodeCaptureUnsupported, "stream %#x is being captured", uintptr(s.id))
}

func (d *device) BeginCapture(s driver.Stream) error {
	if err := d.begin("BeginCapture"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	st := d.streams[s]
	if st == nil {
		return badHandle("BeginCapture", "stream", uintptr(s))
	}
	if err := st.refuse("BeginCapture"); err != nil {
		return err
	}
	st.capture = new(capture)
	return nil
}

func (d *device) CaptureDependencies(s driver.Stream, nodes []driver.Node) ([]driver.Node, error) {
	if err := d.begin("CaptureDependencies"); err != nil {
		return nodes, err
	}
	defer d.mu.Unlock()
	c, err := d.captureOf("CaptureDependencies", s)
	if err != nil {
		return nodes, err
	}
	return append(nodes, c.next...), nil
}

func (d *device) SetCaptureDependencies(s driver.Stream, nodes []driver.Node) error {
	if err := d.begin("SetCaptureDependencies"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	c, err := d.captureOf("SetCaptureDependencies", s)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n < 1 || int(n) > len(c.operations) {
			return badHandle("SetCaptureDependencies", "node", uintptr(n))
		}
	}
	c.next = slices.Clone(nodes)
	return nil
}

// captureOf returns the capture of s.
func (d *device) captureOf(method string, s driver.Stream) (*capture, error) {
	st := d.streams[s]
	if st == nil {
		return nil, badHandle(method, "stream", uintptr(s))
	}
	if st.capture == nil {
		return nil, failure(method, driver.CodeInvalidValue, "stream %#x is not being captured", uintptr(s))
	}
	return st.capture, nil
}

func (d *device) EndCapture(s driver.Stream) (driver.Graph, error) {
	if err := d.beginRelease("EndCapture"); err != nil {
		return 0, err
	}
	st := d.streams[s]
	if st == nil {
		return 0, d.endRelease(badHandle("EndCapture", "stream", uintptr(s)))
	}
	c := st.capture
	st.capture = nil
	switch {
	case c == nil:
		return 0, d.endRelease(failure("EndCapture", codeIllegalState, "stream %#x is not being captured", uintptr(s)))
	case c.spoilt:
		return 0, d.endRelease(failure("EndCapture", driver.CodeCaptureInvalidated, "a call that can't be captured was made on stream %#x", uintptr(s)))
	case d.failed != nil:
		return 0, d.endRelease(nil)
	}
	defer d.mu.Unlock()
	d.lastID++
	id := driver.Graph(d.lastID)
	d.graphs[id] = &graph{operations: c.inOrder(d.config.Late)}
	return id, nil
}

// LaunchGraph queues what was captured. What that uses is looked at when it runs.
func (d *device) LaunchGraph(g driver.Graph, s driver.Stream) error {
	if err := d.begin("LaunchGraph"); err != nil {
		return err
	}
	defer d.mu.Unlock()
	gr, st := d.graphs[g], d.streams[s]
	if gr == nil {
		return badHandle("LaunchGraph", "graph", uintptr(g))
	}
	if st == nil {
		return badHandle("LaunchGraph", "stream", uintptr(s))
	}
	if err := st.refuse("LaunchGraph"); err != nil {
		return err
	}
	if before := gr.last; !before.completed() && before.stream != st {
		d.issue(st, operation{kind: opWait, on: before})
	}
	for _, op := range gr.operations {
		d.issue(st, op)
	}
	gr.last = mark{st, st.issued}
	return nil
}

func (d *device) DestroyGraph(g driver.Graph) error {
	if err := d.beginRelease("DestroyGraph"); err != nil {
		return err
	}
	if d.graphs[g] == nil {
		return d.endRelease(badHandle("DestroyGraph", "graph", uintptr(g)))
	}
	delete(d.graphs, g)
	return d.endRelease(nil)
}
