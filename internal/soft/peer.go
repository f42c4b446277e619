package soft

// This file has what one device does with others of its driver: copies from their memory, and waits for their
// events. No two devices' locks are held at once.

import (
	"maps"
	"slices"

	"github.com/pintensor/pin/internal/driver"
)

func (d *device) Peer() driver.Peer { return driver.Peer(d.ordinal + 1) }

func (d *device) Share(with driver.Peer) (bool, error) {
	if err := d.begin("Share"); err != nil {
		return false, err
	}
	d.mu.Unlock()
	if d.driver.core(with) == nil {
		return false, badHandle("Share", "device", uintptr(with))
	}
	return !d.config.Apart, nil
}

func (d *device) CopyPeer(dst, src driver.DevicePtr, from driver.Peer, n int64, s driver.Stream, done driver.Event) error {
	peer := d.driver.core(from)
	if peer == nil {
		return badHandle("CopyPeer", "device", uintptr(from))
	}
	peer.mu.Lock()
	usable := peer.usable(uintptr(src), n)
	peer.mu.Unlock()
	if n > 0 && !usable {
		return failure("CopyPeer", driver.CodeInvalidValue, "src: no memory of %d bytes at %#x of device %d", n, src, peer.ordinal)
	}
	return d.issueMove(operation{kind: opCopyPeer, dst: uintptr(dst), src: uintptr(src), n: n, peer: peer}, s, done)
}

// core returns an open device, or nil.
func (d *Driver) core(p driver.Peer) *core {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open[int(p)-1]
}

// markElsewhere returns what an event of another device stands for, and whether there is one. Handles of different
// devices differ.
func (d *device) markElsewhere(e driver.Event) (mark, bool) {
	if _, ok := d.mark(e); ok {
		return mark{}, false
	}
	for _, other := range d.driver.cores() {
		if m, ok := other.mark(e); ok {
			return m, true
		}
	}
	return mark{}, false
}

// mark returns what an event stands for, and whether there is one.
func (c *core) mark(e driver.Event) (mark, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ev := c.events[e]
	if ev == nil {
		return mark{}, false
	}
	return ev.mark, true
}

// cores returns the devices that are open.
func (d *Driver) cores() []*core {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.open))
}

// await returns when the work that m stands for is completed. The lock of c is held, but not throughout.
func (c *core) await(m mark) {
	other := m.stream.core
	if other == c {
		m.stream.reach(m.upTo)
		return
	}
	c.mu.Unlock()
	other.mu.Lock()
	m.stream.reach(m.upTo)
	other.mu.Unlock()
	c.mu.Lock()
}
