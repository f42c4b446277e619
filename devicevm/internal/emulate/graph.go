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
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams[s] != nil {
		return failure("BeginCapture", driver.CodeInvalidValue, "the stream is being captured")
	}
	d.streams[s] = new(capture)
	return nil
}

func (d *device) CaptureDependencies(s driver.Stream, nodes []driver.Node) ([]driver.Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.streams[s]
	if c == nil {
		return nodes, failure("CaptureDependencies", driver.CodeInvalidValue, "the stream is not being captured")
	}
	return append(nodes, c.next...), nil
}

func (d *device) SetCaptureDependencies(s driver.Stream, nodes []driver.Node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.streams[s]
	if c == nil {
		return failure("SetCaptureDependencies", driver.CodeInvalidValue, "the stream is not being captured")
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
	d.mu.Lock()
	captured := d.streams[s]
	d.mu.Unlock()
	if captured == nil {
		return 0, failure("EndCapture", driver.CodeInvalidValue, "the stream is not being captured")
	}
	g := driver.Graph(d.create("graph"))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.graphs[g] = captured
	d.streams[s] = nil
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
