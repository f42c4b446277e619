package emulate

// This file has captures and graphs. Each launch of a graph runs its work in another order that its dependencies
// allow, the same in each run of a test: so a dependency that is missing is found without a GPU, where it would show
// now and then.

import (
	"slices"

	"github.com/pintensor/pin/internal/driver"
	"github.com/pintensor/pin/internal/soft"
)

// capture is what was captured. A node is the number of a piece of work, from 1.
type capture struct {
	work    []func() error
	depends [][]int       // of each, on earlier ones
	next    []driver.Node // what the next will depend on
}

func (c *capture) add(work func() error) {
	on := make([]int, len(c.next))
	for i, n := range c.next {
		on[i] = int(n) - 1
	}
	c.work, c.depends = append(c.work, work), append(c.depends, on)
	c.next = []driver.Node{driver.Node(len(c.work))}
}

func (d *device) BeginCapture(s driver.Stream) error {
	st, err := d.uncaptured("BeginCapture", s)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	st.capture = new(capture)
	return nil
}

// captured returns the capture of a stream. d.mu is held.
func (d *device) captured(call string, s driver.Stream) (*capture, error) {
	if st := d.streams[s]; st != nil && st.capture != nil {
		return st.capture, nil
	}
	return nil, failure(call, driver.CodeInvalidValue, "the stream is not being captured")
}

func (d *device) CaptureDependencies(s driver.Stream, nodes []driver.Node) ([]driver.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.captured("CaptureDependencies", s)
	if err != nil {
		return nodes, err
	}
	return append(nodes, c.next...), nil
}

func (d *device) SetCaptureDependencies(s driver.Stream, nodes []driver.Node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.captured("SetCaptureDependencies", s)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n < 1 || int(n) > len(c.work) {
			return failure("SetCaptureDependencies", driver.CodeInvalidHandle, "no node %d", n)
		}
	}
	c.next = slices.Clone(nodes)
	return nil
}

func (d *device) EndCapture(s driver.Stream) (driver.Graph, error) {
	g := driver.Graph(d.create("graph"))
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.captured("EndCapture", s)
	if err != nil {
		delete(d.live, uintptr(g))
		return 0, err
	}
	d.graphs[g] = c
	d.streams[s].capture = nil
	return g, nil
}

func (d *device) LaunchGraph(g driver.Graph, s driver.Stream) error {
	d.mu.Lock()
	c := d.graphs[g]
	if c == nil {
		d.mu.Unlock()
		return failure("LaunchGraph", driver.CodeInvalidHandle, "no graph %#x", g)
	}
	order := soft.Order(c.depends, d.rng.IntN)
	d.mu.Unlock()
	for _, i := range order {
		if err := d.issue(s, c.work[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) DestroyGraph(g driver.Graph) error {
	if err := d.destroy("DestroyGraph", "graph", uintptr(g)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.graphs, g)
	return nil
}
