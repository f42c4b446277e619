package gpu

// This file issues segments: as graphs, whose work runs as soon as what it waits for has.

import (
	"errors"

	"github.com/pintensor/pin/internal/driver"
)

// launch issues a segment, as a graph. A device that has none gets the work piece by piece.
func (m *Machine) launch(c *Code, seg *segment, s driver.Stream) error {
	if seg.graph == 0 && !m.graphless {
		if err := m.capture(c, seg); err != nil {
			return err
		}
	}
	if seg.graph != 0 {
		return m.dev.LaunchGraph(seg.graph, s)
	}
	for _, w := range seg.work {
		if err := w.issue(m, c, s); err != nil {
			return err
		}
	}
	return nil
}

// capture makes a graph of a segment. It captures on a stream that nobody else knows: on the machine's, another goroutine
// might record an event meanwhile, for a tensor that it uses too, which would spoil the capture.
func (m *Machine) capture(c *Code, seg *segment) error {
	s, err := m.capturing()
	if err != nil {
		return err
	}
	if err := m.dev.BeginCapture(s); err != nil {
		if errors.Is(err, driver.ErrNotSupported) {
			m.graphless = true
			return nil
		}
		return err
	}
	failed := m.captureWork(c, seg, s)
	g, err := m.dev.EndCapture(s)
	if failed != nil {
		if err == nil {
			err = m.dev.DestroyGraph(g)
		}
		return errors.Join(failed, err)
	}
	seg.graph = g
	return err
}

// capturing returns the stream to capture on.
func (m *Machine) capturing() (driver.Stream, error) {
	if m.captures != 0 {
		return m.captures, nil
	}
	var err error
	m.captures, err = m.dev.NewStream(0)
	return m.captures, err
}

// captureWork issues a segment's work, each piece after what it waits for. With a driver that can't do so it comes one
// after the other.
func (m *Machine) captureWork(c *Code, seg *segment, s driver.Stream) error {
	ends := make([][]driver.Node, len(seg.work)) // of each piece, which may be several kernels
	var before []driver.Node
	for i, w := range seg.work {
		if !m.chained {
			before = before[:0]
			for _, k := range w.after {
				before = append(before, ends[k]...)
			}
			if err := m.dev.SetCaptureDependencies(s, before); errors.Is(err, driver.ErrNotSupported) && i == 0 {
				m.chained = true
			} else if err != nil {
				return err
			}
		}
		if err := w.issue(m, c, s); err != nil {
			return err
		}
		if !m.chained {
			var err error
			if ends[i], err = m.dev.CaptureDependencies(s, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
